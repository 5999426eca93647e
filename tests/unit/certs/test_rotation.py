"""The order of steps by which the services' certificates come into being, change and heal."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from di_certs.authority import Authority, is_issued_by, renewal_time
from di_certs.inspection import join_certificates, split_certificates
from di_operator.certificates.rotation import (
    MAX_TRUSTED,
    CertificateSettings,
    ConfirmAdmission,
    CreateAuthority,
    IssueServing,
    Leaf,
    Observed,
    PublishBundle,
    Rest,
    Step,
    next_step,
    secret_value,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
WEBHOOK = Leaf(secret="tls", service="di-webhook")
SERVER = Leaf(secret="server-tls", service="di-server", for_pods=True)
SETTINGS = CertificateSettings(
    namespace="di-system", authority_secret="tls-ca", leaves=(WEBHOOK,), configuration="di"
)
BOTH = replace(SETTINGS, leaves=(WEBHOOK, SERVER))
EMPTY_SECRET: dict[str, Any] = {"data": {}}


def encode(**values: bytes) -> dict[str, Any]:
    names = {key.replace("_", "."): value for key, value in values.items()}
    return {"data": {key: base64.b64encode(value).decode() for key, value in names.items()}}


@dataclass
class World:
    """The cluster and a clock; `step` executes the plan's next step."""

    settings: CertificateSettings = SETTINGS
    now: datetime = START
    authority: dict[str, Any] | None = None
    secrets: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    bundles: list[bytes] = field(default_factory=lambda: [b"", b""])
    has_rules: bool = True
    is_registered: bool = True
    confirmed: bytes | None = None
    published: datetime = START

    def plan(self) -> Step:
        observed = Observed(
            authority=self.authority,
            serving=self.secrets,
            bundles=tuple(self.bundles),
            has_rules=self.has_rules,
            is_registered=self.is_registered,
            confirmed=self.confirmed,
            published_for=self.now - self.published,
        )
        return next_step(observed, now=self.now, settings=self.settings)

    def step(self) -> Step:
        match step := self.plan():
            case CreateAuthority():
                made = Authority.create("ca", now=self.now, lifetime=SETTINGS.authority_lifetime)
                self.authority = encode(ca_crt=made.certificate_pem, ca_key=made.private_key_pem)
            case PublishBundle():
                self.bundles = [step.bundle for _ in self.bundles]
                self.has_rules = True
                self.published = self.now
                if secret := self.secrets.get(SERVER.secret):
                    secret["data"] |= encode(ca_crt=step.bundle)["data"]
            case IssueServing():
                pair = step.authority.issue(
                    step.leaf.service,
                    now=self.now,
                    lifetime=SETTINGS.serving_lifetime,
                    hosts=SETTINGS.hosts(step.leaf),
                    server=True,
                )
                self.secrets[step.leaf.secret] = encode(
                    tls_crt=pair.certificate_pem, tls_key=pair.private_key_pem, ca_crt=step.bundle
                )
            case ConfirmAdmission():
                self.confirmed = step.bundle
            case Rest():
                self.now += step.duration
        return step

    def settle(self) -> list[type[Step]]:
        """Step until there is nothing to do for longer than the settle time."""
        steps: list[type[Step]] = []
        for _ in range(20):
            planned = self.plan()
            if isinstance(planned, Rest) and planned.duration > self.settings.settle:
                return steps
            steps.append(type(self.step()))
        raise AssertionError(f"no end: {steps}")

    def trusted(self) -> list[bytes]:
        assert len(set(self.bundles)) == 1
        return split_certificates(self.bundles[0])

    def ca(self) -> bytes:
        assert self.authority is not None
        return base64.b64decode(self.authority["data"]["ca.crt"])

    def leaf(self, leaf: Leaf = WEBHOOK) -> bytes:
        return secret_value(self.secrets[leaf.secret], "tls.crt")

    def told(self) -> list[bytes]:
        """Whom pods trust."""
        return split_certificates(secret_value(self.secrets[SERVER.secret], "ca.crt"))


@pytest.fixture
def world() -> World:
    made = World()
    made.settle()
    return made


def test_at_first_the_authority_is_published_before_a_leaf_is_served() -> None:
    world = World()
    assert world.settle() == [CreateAuthority, PublishBundle, Rest, IssueServing]
    assert world.trusted() == [world.ca()]


def test_at_first_admission_is_confirmed_last() -> None:
    world = World(confirmed=b"", has_rules=False)
    assert world.settle() == [CreateAuthority, PublishBundle, Rest, IssueServing, ConfirmAdmission]
    assert (world.has_rules, world.confirmed) == (True, world.bundles[0])


def test_after_a_reinstall_the_webhook_waits_for_the_published_bundle(world: World) -> None:
    # The Secrets have outlived the release; the configurations and the ConfigMap are new.
    world.now += timedelta(days=1)
    world.bundles, world.has_rules, world.confirmed = [b"", b""], False, b""
    assert isinstance(world.step(), PublishBundle)
    waiting = world.plan()
    assert isinstance(waiting, Rest)
    assert waiting.duration == SETTINGS.settle
    assert world.settle() == [Rest, ConfirmAdmission]
    assert world.confirmed == world.bundles[0]


def test_admission_is_not_confirmed_before_both_configurations_exist(world: World) -> None:
    world.confirmed, world.is_registered = b"", False
    world.now += timedelta(minutes=1)
    assert world.settle() == []
    world.is_registered = True
    assert world.settle() == [ConfirmAdmission]


def test_admission_is_confirmed_when_every_service_has_its_certificate() -> None:
    world = World(settings=BOTH, confirmed=b"")
    steps = world.settle()
    assert steps[3:] == [IssueServing, IssueServing, ConfirmAdmission]
    assert world.confirmed == world.bundles[0]


@pytest.mark.parametrize("left", [b"", b"other"], ids=["emptied", "overwritten"])
def test_a_confirmation_that_was_changed_comes_back(world: World, left: bytes) -> None:
    world.confirmed = left
    world.now += timedelta(minutes=1)
    assert world.settle() == [ConfirmAdmission]
    assert world.confirmed == world.bundles[0]


def test_a_confirmation_is_renewed_with_the_authority() -> None:
    world = World(confirmed=b"")
    world.settle()
    rotate(world)
    assert world.confirmed == world.bundles[0]
    assert len(world.trusted()) == 2


def test_removed_rules_come_back(world: World) -> None:
    world.has_rules = False
    assert world.settle() == [PublishBundle]
    assert world.has_rules


def test_without_configurations_the_certificate_is_issued() -> None:
    assert World(bundles=[]).settle() == [CreateAuthority, IssueServing]


def test_a_complete_state_is_not_changed(world: World) -> None:
    before = (world.authority, dict(world.secrets), list(world.bundles))
    assert world.settle() == []
    assert (world.authority, world.secrets, world.bundles) == before


@pytest.mark.proves("operations.md#certificates/auto")
def test_a_certificate_is_renewed_after_two_thirds_of_its_life(world: World) -> None:
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


def test_an_expiring_authority_is_replaced_with_an_overlap(world: World) -> None:
    old = world.ca()
    world.now = START + SETTINGS.authority_lifetime * 0.67
    assert world.settle()[:4] == [CreateAuthority, PublishBundle, Rest, IssueServing]
    assert world.trusted() == [world.ca(), old]


def rotate(world: World) -> None:
    world.authority = None
    world.settle()


def test_a_deleted_authority_is_replaced_and_stays_trusted(world: World) -> None:
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


def test_authorities_within_one_overlap_all_stay_trusted(world: World) -> None:
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


def test_unreadable_certificates_in_a_bundle_are_removed(world: World) -> None:
    world.now += SETTINGS.overlap
    world.bundles[0] = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert world.settle() == [PublishBundle]
    assert world.trusted() == [world.ca()]


@pytest.mark.parametrize("damaged", [None, EMPTY_SECRET, {"data": {"tls.crt": "%"}}, {}])
def test_a_deleted_or_emptied_serving_secret_is_issued_again(
    world: World, damaged: dict[str, Any] | None
) -> None:
    world.secrets[WEBHOOK.secret] = damaged
    world.now += timedelta(seconds=10)
    assert world.settle() == [IssueServing]


def test_a_key_that_does_not_match_is_replaced(world: World) -> None:
    secret = world.secrets[WEBHOOK.secret]
    assert secret is not None
    other = Authority.create("x", now=START, lifetime=timedelta(days=1))
    secret["data"]["tls.key"] = base64.b64encode(other.private_key_pem).decode()
    world.now += timedelta(seconds=10)
    assert world.settle() == [IssueServing]


def test_additional_hosts_are_in_the_certificate(world: World) -> None:
    world.settings = replace(SETTINGS, leaves=(replace(WEBHOOK, extra_hosts=("10.0.0.7",)),))
    world.now += timedelta(minutes=1)
    assert isinstance(world.plan(), IssueServing)


def test_the_new_certificate_waits_for_the_bundle_to_be_seen(world: World) -> None:
    world.authority = None
    world.step()
    world.step()
    waiting = world.plan()
    assert isinstance(waiting, Rest)
    assert timedelta(0) < waiting.duration <= SETTINGS.settle


LOSSES: dict[str, Callable[[World], None]] = {
    "authority": lambda world: setattr(world, "authority", None),
    "serving": lambda world: world.secrets.clear(),
    "bundles": lambda world: setattr(world, "bundles", [b"", b""]),
    "rules": lambda world: setattr(world, "has_rules", False),
    "confirmation": lambda world: setattr(world, "confirmed", b""),
    "one bundle": lambda world: setattr(world, "bundles", [b"", world.bundles[1]]),
    "step": lambda world: (world.step(), None)[1],
    "overlap": lambda world: setattr(world, "now", world.now + SETTINGS.overlap),
}


@pytest.mark.parametrize("settings", [SETTINGS, BOTH], ids=["webhook", "both"])
@limits(max_examples=20)
@given(history=st.lists(st.sampled_from(sorted(LOSSES)), max_size=8))
def test_any_history_ends_with_verifiable_certificates(
    settings: CertificateSettings, history: list[str]
) -> None:
    world = World(settings=settings)
    for name in history:
        LOSSES[name](world)
    world.settle()
    assert world.has_rules
    assert world.confirmed in (None, world.bundles[0])
    assert world.ca() in world.trusted()
    authority = base64.b64decode((world.authority or EMPTY_SECRET)["data"]["ca.key"])
    assert Authority.load(world.ca(), authority).has_issued(world.leaf())
    for pause in (SETTINGS.spread, SETTINGS.overlap):
        world.now += pause
        world.settle()
    assert world.trusted() == [world.ca()]
    if settings is BOTH:
        assert world.told() == [world.ca()]
        assert is_issued_by(world.leaf(SERVER), world.ca())


@limits(max_examples=20)
@given(st.lists(st.sampled_from(["authority", "step", "overlap"]), max_size=12))
def test_a_served_certificate_is_always_trusted(history: list[str]) -> None:
    world = World(settings=BOTH)
    world.settle()
    for name in history:
        LOSSES[name](world)
        trusted = [item for bundle in world.bundles for item in split_certificates(bundle)]
        assert issuer_of(world.leaf(), trusted), name
        assert issuer_of(world.leaf(SERVER), world.told()), name


def test_a_new_service_gets_a_certificate_of_the_same_authority(world: World) -> None:
    before = (world.ca(), world.leaf())
    world.settings = BOTH
    assert world.settle() == [IssueServing]
    assert (world.ca(), world.leaf()) == before
    assert world.told() == [world.ca()]


def test_without_a_webhook_pods_get_the_authority() -> None:
    settings = replace(SETTINGS, leaves=(SERVER,), configuration=None)
    world = World(settings=settings, bundles=[])
    assert world.settle() == [CreateAuthority, IssueServing]
    assert world.told() == [world.ca()]


def test_pods_know_an_authority_long_before_the_server_uses_it() -> None:
    world = World(settings=BOTH)
    world.settle()
    world.now += timedelta(days=1)
    world.published = world.now
    old, served = world.ca(), world.leaf(SERVER)
    rotate(world)
    assert world.told() == world.trusted() == [world.ca(), old]
    assert world.leaf(SERVER) == served
    told_at = world.published
    while world.leaf(SERVER) == served:
        world.step()
    assert world.now - told_at >= SETTINGS.spread
    assert world.told() == [world.ca(), old]
    world.now += SETTINGS.overlap
    assert world.settle() == [PublishBundle]
    assert world.told() == world.trusted() == [world.ca()]


@pytest.mark.parametrize("damage", ["tls.crt", "tls.key", "expired"])
def test_an_untrusted_server_gets_a_certificate_at_once(damage: str) -> None:
    world = World(settings=BOTH)
    world.settle()
    secret = world.secrets[SERVER.secret]
    assert secret is not None
    if damage == "expired":
        world.now = START + SETTINGS.serving_lifetime + timedelta(days=1)
    else:
        del secret["data"][damage]
    world.authority = None
    began = world.now
    while not is_issued_by(world.leaf(SERVER), world.ca() if world.authority else b""):
        world.step()
    assert world.now - began <= SETTINGS.settle


def test_certificates_outlive_a_month_without_an_operator() -> None:
    # From the moment of renewal on.
    for lifetime in (SETTINGS.serving_lifetime, SETTINGS.authority_lifetime):
        made = Authority.create("x", now=START, lifetime=lifetime).certificate_pem
        end = x509.load_pem_x509_certificate(made).not_valid_after_utc
        assert end - renewal_time(made) >= timedelta(days=30)


def issuer_of(leaf: bytes, authorities: list[bytes]) -> bool:
    return any(is_issued_by(leaf, authority) for authority in authorities)


def test_joining_and_splitting_are_inverse(world: World) -> None:
    other = Authority.create("x", now=START, lifetime=timedelta(days=1)).certificate_pem
    bundle = join_certificates([world.ca(), other, world.ca()])
    assert split_certificates(bundle) == [world.ca(), other]
