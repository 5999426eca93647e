"""The Lease: one leader, by the monotonic clock, given back on exit."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import pytest
from typing_extensions import override

from di_kube.errors import ApiError, Unavailable
from di_kube.resources import LEASES, Resource
from di_operator.leadership.election import Election, Timing
from di_operator.process.lease_state import Loss, NotLeading
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi, Object
from tests.unit.operator.virtual_time import VirtualClock

LEASE = ("Lease", "di-system", "di-operator")
Lead = tuple[Election, asyncio.Task[None]]


def candidate(
    api: FakeApi, identity: str, clock: VirtualClock | None = None, *, seed: int = 1
) -> Election:
    return Election(
        client=api,  # type: ignore[arg-type]  # the part of the client an election uses
        namespace="di-system",
        name="di-operator",
        identity=identity,
        timing=Timing(),
        clock=clock or VirtualClock(),
        rng=Random(seed),
        loss=Loss(),
    )


async def leading(api: FakeApi, clock: VirtualClock | None = None) -> Lead:
    """A leader, and the task that renews its lease."""
    leader = candidate(api, "one", clock)
    await leader.acquire()
    return leader, asyncio.create_task(leader.keep())


def now() -> float:
    return asyncio.get_running_loop().time()


def hand_to(api: FakeApi, holder: str) -> None:
    lease = api.objects[LEASE]
    api.put(LEASES, "di-system", {**lease, "spec": {**lease["spec"], "holderIdentity": holder}})


def away(verb: str, kind: str, name: str) -> ApiError:
    return Unavailable(kind=kind, name=name, code=503)


@virtual_time.in_virtual_time
async def test_the_first_candidate_leads_and_the_second_waits() -> None:
    api = FakeApi()
    second, (first, keeping) = candidate(api, "two"), await leading(api)
    first.check()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(second.acquire(), 300)
    assert first.holds()
    assert not second.holds()
    assert not keeping.done()


@virtual_time.in_virtual_time
async def test_a_dead_leader_is_replaced_when_its_lease_expires() -> None:
    api = FakeApi()
    await candidate(api, "one").acquire()
    second = candidate(api, "two")
    started = now()
    await second.acquire()
    assert 15 <= now() - started <= 15 + 0.1
    lease = api.objects[LEASE]
    assert lease["spec"]["holderIdentity"] == "two"
    assert lease["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("seed", range(20))
@virtual_time.in_virtual_time
async def test_a_leader_dead_after_a_renewal_is_replaced_within_17_seconds(
    seed: int,
) -> None:
    api = FakeApi()
    first, second = candidate(api, "one"), candidate(api, "two", seed=seed)
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    keeping = asyncio.create_task(first.keep())
    await asyncio.sleep(Random(seed).uniform(5, 10))
    version = api.objects[LEASE]["metadata"]["resourceVersion"]
    while api.objects[LEASE]["metadata"]["resourceVersion"] == version:
        await asyncio.sleep(0.001)
    keeping.cancel()
    died = now()
    await waiting
    assert 15 <= now() - died <= 17


@virtual_time.in_virtual_time
async def test_a_released_lease_is_taken_within_a_retry() -> None:
    api = FakeApi()
    first, second = candidate(api, "one"), candidate(api, "two")
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(5)
    await first.release()
    assert not first.holds()
    released = now()
    await waiting
    assert now() - released <= 1.2 + 0.1


@pytest.mark.parametrize(("holder", "left"), [("one", ""), ("thief", "thief")])
@virtual_time.in_virtual_time
async def test_a_lease_changed_meanwhile_is_released_if_it_is_still_ours(
    holder: str, left: str
) -> None:
    api = FakeApi()
    leader = candidate(api, "one")
    await leader.acquire()
    # A renewal that arrived although it was cancelled; or another holder of the lease.
    hand_to(api, holder)
    await leader.release()
    assert api.objects[LEASE]["spec"]["holderIdentity"] == left


@virtual_time.in_virtual_time
async def test_the_same_identity_takes_its_own_lease_at_once() -> None:
    api = FakeApi()
    await candidate(api, "one").acquire()
    started = now()
    await candidate(api, "one").acquire()
    assert now() - started < 1


@virtual_time.in_virtual_time
async def test_a_leader_that_cannot_renew_stops_before_its_lease_expires() -> None:
    leader, keeping = await leading(api := FakeApi())
    api.before = away
    with pytest.raises(NotLeading):
        await keeping
    assert 10 <= now() < 15
    with pytest.raises(NotLeading):
        leader.check()


@virtual_time.in_virtual_time
async def test_a_short_outage_does_not_end_the_leadership() -> None:
    leader, keeping = await leading(api := FakeApi())
    api.before = away
    await asyncio.sleep(7)
    api.before = lambda verb, kind, name: None
    await asyncio.sleep(60)
    assert leader.holds()
    assert not keeping.done()


@virtual_time.in_virtual_time
async def test_a_process_resumed_after_the_expiry_does_not_lead() -> None:
    api = FakeApi()
    leader = candidate(api, "one")
    await leader.acquire()
    # Nothing of the process ran meanwhile: no task could renew, none could notice.
    await asyncio.sleep(60)
    with pytest.raises(NotLeading):
        leader.check()


@virtual_time.in_virtual_time
async def test_a_stolen_lease_ends_the_leadership_at_the_next_renewal() -> None:
    leader, keeping = await leading(api := FakeApi())
    hand_to(api, "thief")
    with pytest.raises(NotLeading):
        await keeping
    assert now() < 3
    await leader.release()
    assert api.objects[LEASE]["spec"]["holderIdentity"] == "thief"


@pytest.mark.parametrize("hours", [-1, 1])
@virtual_time.in_virtual_time
async def test_a_wall_clock_that_jumps_changes_nothing(hours: int) -> None:
    api = FakeApi()
    clock, standby = VirtualClock(), candidate(api, "two")
    leader, _keeping = await leading(api, clock)
    waiting = asyncio.create_task(standby.acquire())
    await asyncio.sleep(10)
    clock.wall += timedelta(hours=hours)
    await asyncio.sleep(120)
    assert leader.holds()
    assert not waiting.done()


class SlowApi(FakeApi):
    """Renewals take so many seconds each, at most as long as they may; then one in no time."""

    def __init__(self, *seconds: float, arrives: bool = False) -> None:
        super().__init__()
        self._seconds = [*seconds]
        # Whether one whose answer is lost was written.
        self._arrives = arrives

    @override
    async def replace(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str = "",
        *,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None = None,
    ) -> Object:
        assert timeout is not None
        seconds = self._seconds.pop(0) if self._seconds else 0.0
        await asyncio.sleep(min(seconds, timeout))
        if seconds <= timeout:
            return await super().replace(resource, name, body, namespace, timeout=timeout)
        if self._arrives:
            await super().replace(resource, name, body, namespace, timeout=timeout)
        raise Unavailable(kind=resource.kind, name=name, code=0)


@pytest.mark.parametrize(
    "api",
    [
        SlowApi(99.0, 1.5),
        SlowApi(1.0, 99.0),
        SlowApi(1.5, 99.0, 1.5),
        SlowApi(99.0, arrives=True),
        SlowApi(1.0, 99.0, arrives=True),
    ],
    ids=["then a slow one", "after a slow one", "between", "arrived", "arrived after a slow one"],
)
@virtual_time.in_virtual_time
async def test_one_unanswered_renewal_does_not_lose_the_lease(api: SlowApi) -> None:
    leader, keeping = await leading(api)
    for _ in range(400):
        await asyncio.sleep(0.1)
        leader.check()
    assert not keeping.done()


@virtual_time.in_virtual_time
async def test_renewals_are_a_period_apart_however_long_each_takes() -> None:
    api = SlowApi(*[1.0] * 100)
    _leader, _keeping = await leading(api)
    await asyncio.sleep(20.5)
    assert 8 <= api.calls["replace", "Lease"] <= 10
