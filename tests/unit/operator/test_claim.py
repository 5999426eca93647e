"""The claim on the jobs: one release, whoever comes at the same time, and none for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from di_api.kube.errors import ApiError, Unavailable
from di_api.kube.resources import LEASES
from di_operator.claim import LEASE_NAME, Claim, ClaimTiming
from di_operator.leadership import Loss, NotLeading
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

    def stop(self, number: int = 0) -> None:
        self.tasks[number].cancel()

    def holder(self, namespace: str) -> str:
        spec = self.api.objects["Lease", namespace, LEASE_NAME]["spec"]
        return str(spec["holderIdentity"])


def play(scenario: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        try:
            await scenario
        finally:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    virtual_time.run(main())


@pytest.mark.parametrize("watched", [None, "team"])
def test_replicas_of_one_release_hold_the_claim_together_and_keep_it(watched: str | None) -> None:
    async def scenario() -> None:
        bench = Bench()
        claims = [bench.start("a", watched, seed=seed) for seed in range(3)]
        await asyncio.sleep(3600)
        assert [claim.objection for claim in claims] == [None] * 3
        assert all(claim.held.is_set() for claim in claims)
        assert not any(task.done() for task in bench.tasks)
        assert bench.holder(watched or "a") == "a"

    play(scenario())


@pytest.mark.parametrize(
    ("first", "second"), [(None, None), ("team", "team"), (None, "a"), ("b", None)], ids=str
)
def test_a_second_release_waits_and_says_for_whom(first: str | None, second: str | None) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.start("a", first)
        await asyncio.sleep(5)
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

    play(scenario())


def test_releases_for_two_namespaces_do_not_mind_each_other() -> None:
    async def scenario() -> None:
        bench = Bench()
        claims = [bench.start("a", "team"), bench.start("b", "other")]
        await asyncio.sleep(5)
        assert [claim.objection for claim in claims] == [None, None]

    play(scenario())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("watched", [(None, None, None), ("t", "t", "t"), ("b", None, None)])
def test_of_releases_that_come_at_once_one_gets_the_jobs(
    watched: tuple[str | None, ...], seed: int
) -> None:
    async def scenario() -> None:
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

    play(scenario())


@pytest.mark.parametrize("holder", ["tenant", "a", "somebody"])
def test_a_claim_of_somebody_who_may_not_look_after_all_jobs_stops_nobody(holder: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        renewed = VirtualClock().now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "renewTime": renewed}
        bench.api.put(LEASES, "tenant", {"metadata": {"name": LEASE_NAME}, "spec": spec})
        claim = bench.start("a")
        await asyncio.sleep(1)
        assert claim.held.is_set()

    play(scenario())


def test_what_a_release_left_long_ago_keeps_nobody_waiting() -> None:
    async def scenario() -> None:
        bench = Bench()
        renewed = (VirtualClock().now() - 601 * SECOND).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "gone", "renewTime": renewed}
        bench.api.mighty.add("system:serviceaccount:gone:di-operator")
        bench.api.put(LEASES, "gone", {"metadata": {"name": LEASE_NAME}, "spec": spec})
        claim = bench.start("a")
        await asyncio.sleep(1)
        assert claim.held.is_set()

    play(scenario())


def test_a_claim_that_cannot_be_renewed_is_given_up_before_others_may_take_it() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.start("a")
        await asyncio.sleep(5)

        def away(verb: str, kind: str, name: str) -> ApiError:
            return Unavailable(kind=kind, name=name, code=503)

        bench.api.before = away
        cut = asyncio.get_running_loop().time()
        with pytest.raises(NotLeading):
            await bench.tasks[0]
        assert asyncio.get_running_loop().time() - cut < TIMING.duration

    play(scenario())


def test_a_renewal_that_hangs_is_given_up_before_others_may_take_the_claim() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.start("a")
        await asyncio.sleep(5)
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

    play(scenario())


@pytest.mark.parametrize("pause", [5.0, 60.0], ids=["in time", "too late"])
def test_a_claim_started_again_after_a_defect_goes_on_or_is_lost(pause: float) -> None:
    async def scenario() -> None:
        bench = Bench()
        claim = bench.start("a")
        await asyncio.sleep(5)
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

    play(scenario())


@pytest.mark.parametrize("holder", ["b", ""])
def test_a_claim_that_somebody_took_or_deleted_is_lost(holder: str) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.start("a", "team")
        await asyncio.sleep(5)
        lease = bench.api.objects.pop(("Lease", "team", LEASE_NAME))
        if holder:
            spec = {**lease["spec"], "holderIdentity": holder}
            bench.api.put(LEASES, "team", {**lease, "spec": spec})
        with pytest.raises(NotLeading):
            await bench.tasks[0]

    play(scenario())


def test_a_replica_that_slept_too_long_does_not_renew() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.start("a")
        await asyncio.sleep(5)
        # All of its time passes between two looks at the clock.
        before = dict(bench.api.objects)
        asyncio.get_running_loop()._jumping.time += 60  # type: ignore[attr-defined]
        with pytest.raises(NotLeading):
            await bench.tasks[0]
        assert bench.api.objects == before

    play(scenario())


def test_an_api_server_that_is_away_is_the_objection() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.api.before = lambda verb, kind, name: Unavailable(kind=kind, name=name, code=503)
        claim = bench.start("a")
        await asyncio.sleep(60)
        assert claim.objection is not None
        assert "cannot be made" in claim.objection
        bench.api.before = lambda verb, kind, name: None
        await asyncio.sleep(5)
        assert claim.held.is_set()

    play(scenario())


@pytest.mark.parametrize("is_renewal", [True, False], ids=["renewed", "annotated"])
def test_a_conflict_counts_as_renewed_if_a_replica_of_the_release_renewed(is_renewal: bool) -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.start("a")
        await asyncio.sleep(5)

        def overtake(verb: str, kind: str, name: str) -> None:
            if (verb, kind) == ("replace", "Lease"):
                lease = bench.api.objects["Lease", "a", LEASE_NAME]
                renewed = (VirtualClock().now()).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                spec = {**lease["spec"], **({"renewTime": renewed} if is_renewal else {})}
                bench.api.put(LEASES, "a", {**lease, "spec": spec})

        bench.api.before = overtake
        await asyncio.sleep(600)
        assert bench.tasks[0].done() is not is_renewal

    play(scenario())


def test_replicas_that_started_together_do_not_renew_in_step() -> None:
    async def scenario() -> None:
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

    play(scenario())
