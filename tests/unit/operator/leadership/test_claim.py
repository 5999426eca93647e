"""The claim on the jobs: one release holds it at a time, and none for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from di_kube.errors import ApiError, Unavailable
from di_kube.resources import LEASES
from di_operator.leadership.release_claim import LEASE_NAME, Claim, ClaimTiming
from di_operator.process.lease_state import Loss, NotLeading
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.virtual_time import VirtualClock

TIMING = ClaimTiming()
SECOND = timedelta(seconds=1)


class Bench:
    """Releases beside each other."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.api.mighty = {f"system:serviceaccount:{name}:di-operator" for name in "abc"}
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, release: str, watched: str | None = None, *, seed: int = 1) -> Claim:
        claim = Claim(
            client=self.api,  # type: ignore[arg-type]  # the part of the client it uses
            release=release,
            watched=watched,
            timing=TIMING,
            clock=VirtualClock(),
            rng=Random(seed),
            loss=Loss(),
        )
        self.tasks.append(asyncio.create_task(claim.run()))
        return claim

    async def lead(self, watched: str | None = None) -> Claim:
        """Release a holds the claim."""
        claim = self.start("a", watched)
        await asyncio.sleep(5)
        return claim

    def put(self, namespace: str, holder: str, *, age: float = 0.0) -> None:
        """A claim that was renewed so many seconds ago."""
        renewed = (VirtualClock().now() - age * SECOND).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "renewTime": renewed}
        self.api.put(LEASES, namespace, {"metadata": {"name": LEASE_NAME}, "spec": spec})

    def stop(self, number: int = 0) -> None:
        self.tasks[number].cancel()

    def holder(self, namespace: str) -> str:
        spec = self.api.objects["Lease", namespace, LEASE_NAME]["spec"]
        return str(spec["holderIdentity"])


def away(verb: str, kind: str, name: str) -> ApiError:
    return Unavailable(kind=kind, name=name, code=503)


@pytest.mark.parametrize("watched", [None, "team"])
@virtual_time.in_virtual_time
async def test_replicas_of_one_release_share_and_keep_the_claim(
    watched: str | None,
) -> None:
    bench = Bench()
    claims = [bench.start("a", watched, seed=seed) for seed in range(3)]
    await asyncio.sleep(3600)
    assert [claim.objection for claim in claims] == [None] * 3
    assert all(claim.held.is_set() for claim in claims)
    assert not any(task.done() for task in bench.tasks)
    assert bench.holder(watched or "a") == "a"


@pytest.mark.parametrize(
    ("first", "second"), [(None, None), ("team", "team"), (None, "a"), ("b", None)], ids=str
)
@virtual_time.in_virtual_time
async def test_a_second_release_waits_and_names_the_first(
    first: str | None, second: str | None
) -> None:
    bench = Bench()
    await bench.lead(first)
    later = bench.start("b", second)
    await asyncio.sleep(3600)
    assert not later.held.is_set()
    assert later.objection is not None
    assert "operator in namespace a" in later.objection
    assert f"{first or 'a'}/{LEASE_NAME}" in later.objection
    stopped = asyncio.get_running_loop().time()
    bench.stop()
    await later.held.wait()
    assert asyncio.get_running_loop().time() - stopped < TIMING.duration + 5
    assert later.objection is None


@virtual_time.in_virtual_time
async def test_releases_for_two_namespaces_both_hold_their_claims() -> None:
    bench = Bench()
    claims = [bench.start("a", "team"), bench.start("b", "other")]
    await asyncio.sleep(5)
    assert [claim.objection for claim in claims] == [None, None]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("watched", [(None, None, None), ("t", "t", "t"), ("b", None, None)])
@virtual_time.in_virtual_time
async def test_one_of_several_releases_started_together_gets_the_claim(
    watched: tuple[str | None, ...], seed: int
) -> None:
    bench = Bench()
    rng = Random(seed)
    claims = []
    for name, namespace in zip("abc", watched, strict=True):
        claims.append(bench.start(name, namespace, seed=rng.randrange(1000)))
        await asyncio.sleep(rng.choice((0, 0.001, 0.002, 0.003)))
    for _ in range(300):
        await asyncio.sleep(0.2)
        assert sum(claim.held.is_set() for claim in claims) <= 1
    assert any(claim.held.is_set() for claim in claims)


@pytest.mark.parametrize(
    ("namespace", "holder", "age"),
    [("tenant", "tenant", 0), ("tenant", "a", 0), ("tenant", "somebody", 0), ("gone", "gone", 601)],
)
@virtual_time.in_virtual_time
async def test_a_claim_without_cluster_wide_rights_or_long_expired_is_ignored(
    namespace: str, holder: str, age: float
) -> None:
    bench = Bench()
    bench.api.mighty.add("system:serviceaccount:gone:di-operator")
    bench.put(namespace, holder, age=age)
    claim = bench.start("a")
    await asyncio.sleep(1)
    assert claim.held.is_set()


@virtual_time.in_virtual_time
async def test_a_claim_that_cannot_be_renewed_is_dropped_before_it_expires() -> None:
    bench = Bench()
    await bench.lead()

    bench.api.before = away
    cut = asyncio.get_running_loop().time()
    with pytest.raises(NotLeading):
        await bench.tasks[0]
    assert asyncio.get_running_loop().time() - cut < TIMING.duration


@virtual_time.in_virtual_time
async def test_a_claim_whose_renewal_hangs_is_dropped_before_it_expires() -> None:
    bench = Bench()
    await bench.lead()
    list_now, failures = bench.api.list, 0

    async def list_slowly(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(9.9)
        return await list_now(*args, **options)

    async def fail(*_: Any, **__: Any) -> Any:
        nonlocal failures
        failures += 1
        await asyncio.sleep(9.9 if failures > 1 else 0)
        raise Unavailable(kind="Lease", name=LEASE_NAME)

    bench.api.list = list_slowly  # type: ignore[method-assign]
    bench.api.replace = fail  # type: ignore[method-assign]
    with pytest.raises(NotLeading):
        await bench.tasks[0]
    assert asyncio.get_running_loop().time() < TIMING.duration


@pytest.mark.parametrize("pause", [5.0, 60.0], ids=["in time", "too late"])
@virtual_time.in_virtual_time
async def test_a_claim_restarted_after_a_defect_continues_unless_it_expired(pause: float) -> None:
    bench = Bench()
    claim = await bench.lead()
    list_now = bench.api.list

    async def be_defective(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a mistake of ours")

    bench.api.list = be_defective  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        await bench.tasks[0]
    bench.api.list = list_now  # type: ignore[method-assign]
    rival = bench.start("b")
    await asyncio.sleep(pause)
    again = asyncio.create_task(claim.run())
    await asyncio.sleep(30)
    assert again.done() is rival.held.is_set() is (pause > TIMING.duration)
    if again.done():
        assert isinstance(again.exception(), NotLeading)


@pytest.mark.parametrize("holder", ["b", ""])
@virtual_time.in_virtual_time
async def test_a_claim_that_was_taken_or_deleted_is_lost(holder: str) -> None:
    bench = Bench()
    await bench.lead("team")
    lease = bench.api.objects.pop(("Lease", "team", LEASE_NAME))
    if holder:
        spec = {**lease["spec"], "holderIdentity": holder}
        bench.api.put(LEASES, "team", {**lease, "spec": spec})
    with pytest.raises(NotLeading):
        await bench.tasks[0]


@virtual_time.in_virtual_time
async def test_a_replica_suspended_past_the_expiry_does_not_renew() -> None:
    bench = Bench()
    await bench.lead()
    # All of its time passes between two looks at the clock.
    before = dict(bench.api.objects)
    asyncio.get_running_loop()._jumping.time += 60  # type: ignore[attr-defined]
    with pytest.raises(NotLeading):
        await bench.tasks[0]
    assert bench.api.objects == before


@virtual_time.in_virtual_time
async def test_an_unreachable_api_server_is_the_objection() -> None:
    bench = Bench()
    bench.api.before = away
    claim = bench.start("a")
    await asyncio.sleep(60)
    assert claim.objection is not None
    assert "cannot be made" in claim.objection
    bench.api.before = lambda verb, kind, name: None
    await asyncio.sleep(5)
    assert claim.held.is_set()


@pytest.mark.parametrize("is_renewal", [True, False], ids=["renewed", "annotated"])
@virtual_time.in_virtual_time
async def test_a_conflict_counts_as_renewed_if_another_replica_renewed(
    is_renewal: bool,
) -> None:
    bench = Bench()
    await bench.lead()

    def overtake(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("replace", "Lease"):
            if is_renewal:
                bench.put("a", "a")
            else:
                bench.api.put(LEASES, "a", bench.api.objects["Lease", "a", LEASE_NAME])

    bench.api.before = overtake
    await asyncio.sleep(600)
    assert bench.tasks[0].done() is not is_renewal


@pytest.mark.parametrize(("replicas", "reads"), [(1, 1), (2, 100)], ids=["alone", "beside another"])
@virtual_time.in_virtual_time
async def test_a_lease_is_read_before_each_renewal_only_beside_another_replica(
    replicas: int, reads: int
) -> None:
    bench = Bench()
    for seed in range(replicas):
        bench.start("a", seed=seed)
    await asyncio.sleep(5)
    bench.api.calls.clear()
    await asyncio.sleep(600)
    read, renewed = bench.api.calls["list", "Lease"], bench.api.calls["replace", "Lease"]
    assert renewed >= 40 * replicas
    assert read <= 1 if reads == 1 else read >= reads


@virtual_time.in_virtual_time
async def test_a_lease_that_was_deleted_is_lost_at_its_next_renewal() -> None:
    bench = Bench()
    await bench.lead()
    await asyncio.sleep(60)
    del bench.api.objects["Lease", "a", LEASE_NAME]
    await asyncio.sleep(2 * TIMING.renew_period)
    assert isinstance(bench.tasks[0].exception(), NotLeading)


@virtual_time.in_virtual_time
async def test_replicas_started_together_do_not_renew_in_step() -> None:
    bench = Bench()
    for seed in range(2):
        bench.start("a", seed=seed)
    await asyncio.sleep(60)
    times = list[float]()

    def note(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("replace", "Lease"):
            times.append(asyncio.get_running_loop().time())

    bench.api.before = note
    await asyncio.sleep(600)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) < max(gaps) / 2
