"""The order of steps by which the webhook's certificates come into being, change and heal."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_certs.authority import Authority, is_issued_by
from di_certs.inspection import join_certificates, split_certificates
from di_operator.certificate_plan import (
    MAX_TRUSTED,
    CertificateSettings,
    CreateAuthority,
    IssueServing,
    Observed,
    PublishBundle,
    Rest,
    Step,
    next_step,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
SETTINGS = CertificateSettings(
    namespace="di-system", secret="tls", service="di-webhook", configuration="di"
)
EMPTY_SECRET: dict[str, Any] = {"data": {}}


def encode(**values: bytes) -> dict[str, Any]:
    names = {key.replace("_", "."): value for key, value in values.items()}
    return {"data": {key: base64.b64encode(value).decode() for key, value in names.items()}}


@dataclass
class World:
    """The cluster and a clock; `step` does what the plan says, as the shell would."""

    now: datetime = START
    authority: dict[str, Any] | None = None
    serving: dict[str, Any] | None = None
    bundles: list[bytes] = field(default_factory=lambda: [b"", b""])
    published: datetime = START

    def plan(self) -> Step:
        observed = Observed(
            authority=self.authority,
            serving=self.serving,
            bundles=tuple(self.bundles),
            published_for=self.now - self.published,
        )
        return next_step(observed, now=self.now, settings=SETTINGS)

    def step(self) -> Step:
        match step := self.plan():
            case CreateAuthority():
                made = Authority.create("ca", now=self.now, lifetime=SETTINGS.authority_lifetime)
                self.authority = encode(ca_crt=made.certificate_pem, ca_key=made.private_key_pem)
            case PublishBundle():
                self.bundles = [step.bundle for _ in self.bundles]
                self.published = self.now
            case IssueServing():
                pair = step.authority.issue(
                    "di-webhook",
                    now=self.now,
                    lifetime=SETTINGS.serving_lifetime,
                    hosts=SETTINGS.hosts,
                    server=True,
                )
                self.serving = encode(
                    tls_crt=pair.certificate_pem,
                    tls_key=pair.private_key_pem,
                    ca_crt=step.bundle,
                )
            case Rest():
                self.now += step.duration
        return step

    def settle(self) -> list[type[Step]]:
        """Step until there is nothing to do for longer than the settle time."""
        steps: list[type[Step]] = []
        for _ in range(20):
            planned = self.plan()
            if isinstance(planned, Rest) and planned.duration > SETTINGS.settle:
                return steps
            steps.append(type(self.step()))
        raise AssertionError(f"no end: {steps}")

    def trusted(self) -> list[bytes]:
        assert len(set(self.bundles)) == 1
        return split_certificates(self.bundles[0])

    def ca(self) -> bytes:
        assert self.authority is not None
        return base64.b64decode(self.authority["data"]["ca.crt"])

    def leaf(self) -> bytes:
        assert self.serving is not None
        return base64.b64decode(self.serving["data"]["tls.crt"])


@pytest.fixture
def world() -> World:
    made = World()
    made.settle()
    return made


def test_from_nothing_the_authority_is_trusted_before_anything_it_issued_is_served() -> None:
    world = World()
    assert world.settle() == [CreateAuthority, PublishBundle, Rest, IssueServing]
    assert world.trusted() == [world.ca()]


def test_without_configurations_the_serving_certificate_is_issued_all_the_same() -> None:
    assert World(bundles=[]).settle() == [CreateAuthority, IssueServing]


def test_a_settled_world_is_left_alone(world: World) -> None:
    before = (world.authority, world.serving, list(world.bundles))
    assert world.settle() == []
    assert (world.authority, world.serving, world.bundles) == before


def test_the_serving_certificate_is_renewed_at_two_thirds_of_its_life(world: World) -> None:
    old = world.leaf()
    world.now = START + SETTINGS.serving_lifetime * 0.6
    assert world.settle() == []
    world.now = START + SETTINGS.serving_lifetime * 0.67
    assert world.settle() == [IssueServing]
    assert world.leaf() != old
    assert world.trusted() == [world.ca()]


def test_resting_ends_when_the_next_renewal_is_due(world: World) -> None:
    rest = world.plan()
    assert isinstance(rest, Rest)
    world.now += rest.duration
    assert isinstance(world.plan(), IssueServing)


def test_an_authority_near_its_end_is_replaced_under_overlap(world: World) -> None:
    old = world.ca()
    world.now = START + SETTINGS.authority_lifetime * 0.67
    assert world.settle()[:4] == [CreateAuthority, PublishBundle, Rest, IssueServing]
    assert world.trusted() == [world.ca(), old]


def rotate(world: World) -> None:
    world.authority = None
    world.settle()


def test_a_deleted_authority_is_replaced_and_the_old_one_stays_trusted(world: World) -> None:
    old = world.ca()
    rotate(world)
    assert world.trusted() == [world.ca(), old]


def test_two_authorities_are_trusted_only_during_the_overlap(world: World) -> None:
    for _ in range(3):
        old = world.ca()
        rotate(world)
        assert world.trusted() == [world.ca(), old]
        rest = world.plan()
        assert isinstance(rest, Rest)
        assert rest.duration <= SETTINGS.overlap
        world.now += rest.duration
        assert world.settle() == [PublishBundle]
        assert world.trusted() == [world.ca()]


def test_authorities_replaced_within_one_overlap_all_stay_trusted(world: World) -> None:
    seen = [world.ca()]
    for _ in range(3):
        rotate(world)
        seen.insert(0, world.ca())
    assert world.trusted() == seen
    for _ in range(MAX_TRUSTED):
        rotate(world)
    assert len(world.trusted()) == MAX_TRUSTED


@pytest.mark.parametrize("emptied", [[0], [1], [0, 1]])
def test_an_emptied_bundle_comes_back(world: World, emptied: list[int]) -> None:
    for index in emptied:
        world.bundles[index] = b""
    assert world.settle() == [PublishBundle]
    assert world.trusted() == [world.ca()]


def test_a_bundle_emptied_during_the_overlap_comes_back_with_both(world: World) -> None:
    rotate(world)
    both = world.trusted()
    world.bundles = [b"", b""]
    world.settle()
    assert world.trusted() == both
    assert len(both) == 2


def test_junk_in_a_bundle_is_thrown_away(world: World) -> None:
    world.now += SETTINGS.overlap
    world.bundles[0] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert world.settle() == [PublishBundle]
    assert world.trusted() == [world.ca()]


@pytest.mark.parametrize("damaged", [None, EMPTY_SECRET, {"data": {"tls.crt": "%"}}, {}])
def test_a_deleted_or_emptied_serving_secret_is_issued_again(
    world: World, damaged: dict[str, Any] | None
) -> None:
    world.serving = damaged
    world.now += timedelta(seconds=10)
    assert world.settle() == [IssueServing]


def test_a_key_that_does_not_match_is_replaced(world: World) -> None:
    assert world.serving is not None
    other = Authority.create("x", now=START, lifetime=timedelta(days=1))
    world.serving["data"]["tls.key"] = base64.b64encode(other.private_key_pem).decode()
    world.now += timedelta(seconds=10)
    assert world.settle() == [IssueServing]


def test_further_names_of_the_webhook_are_taken_into_the_certificate(world: World) -> None:
    settings = CertificateSettings(
        namespace="di-system",
        secret="tls",
        service="di-webhook",
        configuration="di",
        extra_hosts=("10.0.0.7",),
    )
    observed = Observed(
        authority=world.authority,
        serving=world.serving,
        bundles=tuple(world.bundles),
        published_for=timedelta(minutes=1),
    )
    assert isinstance(next_step(observed, now=world.now, settings=settings), IssueServing)


def test_the_new_certificate_waits_for_the_bundle_to_be_seen(world: World) -> None:
    world.authority = None
    world.step()
    world.step()
    waiting = world.plan()
    assert isinstance(waiting, Rest)
    assert timedelta(0) < waiting.duration <= SETTINGS.settle


LOSSES: dict[str, Callable[[World], None]] = {
    "authority": lambda world: setattr(world, "authority", None),
    "serving": lambda world: setattr(world, "serving", None),
    "bundles": lambda world: setattr(world, "bundles", [b"", b""]),
    "one bundle": lambda world: setattr(world, "bundles", [b"", world.bundles[1]]),
    "step": lambda world: (world.step(), None)[1],
    "overlap": lambda world: setattr(world, "now", world.now + SETTINGS.overlap),
}


@given(st.lists(st.sampled_from(sorted(LOSSES)), max_size=8))
def test_any_history_ends_in_a_verifiable_world(history: list[str]) -> None:
    world = World()
    for name in history:
        LOSSES[name](world)
    world.settle()
    assert world.ca() in world.trusted()
    authority = base64.b64decode((world.authority or EMPTY_SECRET)["data"]["ca.key"])
    assert Authority.load(world.ca(), authority).has_issued(world.leaf())
    world.now += SETTINGS.overlap
    world.settle()
    assert world.trusted() == [world.ca()]


@given(st.lists(st.sampled_from(["authority", "step", "overlap"]), max_size=12))
def test_a_served_certificate_is_always_trusted(history: list[str]) -> None:
    world = World()
    world.settle()
    for name in history:
        LOSSES[name](world)
        trusted = [item for bundle in world.bundles for item in split_certificates(bundle)]
        assert issuer_of(world.leaf(), trusted), name


def issuer_of(leaf: bytes, authorities: list[bytes]) -> bool:
    return any(is_issued_by(leaf, authority) for authority in authorities)


def test_joining_and_splitting_are_inverse(world: World) -> None:
    other = Authority.create("x", now=START, lifetime=timedelta(days=1)).certificate_pem
    bundle = join_certificates([world.ca(), other, world.ca()])
    assert split_certificates(bundle) == [world.ca(), other]
