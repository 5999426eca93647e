"""Events: within a budget, repeated ones counted, anomalies never dropped."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from typing_extensions import override

from di_kube.errors import ApiError, Forbidden, Unavailable
from di_operator.cluster.event_recorder import (
    BURST,
    HELD_SECONDS,
    JOBS_A_SECOND,
    RATE,
    EventRecorder,
    TokenBucket,
)
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi
from tests.unit.operator.virtual_time import VirtualClock


class Results(Counter[tuple[str, str]]):
    def event(self, type_: str, result: str) -> None:
        self[type_, result] += 1

    def anomaly(self, reason: str) -> None:
        self["anomaly", reason] += 1


def job(name: str = "a", *, namespace: str = "ns") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"}}


def warning(message: str) -> JobEvent:
    return JobEvent(reason=Reason.QUOTA_EXCEEDED, message=message)


def normal(message: str) -> JobEvent:
    return JobEvent(reason=Reason.JOB_RUNNING, message=message)


def recorder(api: FakeApi, results: Results) -> EventRecorder:
    return EventRecorder(
        client=api,  # type: ignore[arg-type]  # the part of the client a recorder uses
        clock=VirtualClock(),
        instance="one",
        observer=results,
    )


class LossyApi(FakeApi):
    """Keeps what it is sent; the first answers are lost."""

    lost = 0

    @override
    async def create(self, resource: Any, body: Any, *args: Any, **options: Any) -> dict[str, Any]:
        created = await super().create(resource, body, *args, **options)
        if self.lost:
            self.lost -= 1
            raise Unavailable(kind="Event", code=0)
        return created


class Bench:
    """A recorder, and the API server that it sends to."""

    def __init__(self) -> None:
        self.api, self.results = LossyApi(), Results()
        self.events = recorder(self.api, self.results)


def recorded(test: Callable[[Bench], Awaitable[None]]) -> Callable[[], None]:
    """A test of a recorder that sends; it has to send all at its end."""

    @virtual_time.in_virtual_time
    async def run_test() -> None:
        bench = Bench()
        sending = asyncio.create_task(bench.events.run())
        await test(bench)
        bench.events.drain()
        await asyncio.wait_for(sending, 60)

    return run_test


def is_normal(event: dict[str, Any]) -> bool:
    return bool(event["type"] == "Normal")


def sent(api: FakeApi) -> list[dict[str, Any]]:
    return [body for (kind, _, _), body in api.objects.items() if kind == "Event"]


@recorded
async def test_a_warning_that_comes_again_is_one_event_with_a_growing_count(bench: Bench) -> None:
    for number in range(5):
        bench.events.emit(job(), warning(f"refusal {number}"))
        await asyncio.sleep(1)
    (event,) = sent(bench.api)
    assert event["count"] == 5
    assert event["message"] == "refusal 4"
    assert event["firstTimestamp"] < event["lastTimestamp"]
    assert bench.results["anomaly", "QuotaExceeded"] == 5


@recorded
async def test_repeats_that_wait_together_are_one_write(bench: Bench) -> None:
    for _ in range(100):
        bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(1)
    (event,) = sent(bench.api)
    assert event["count"] == 100
    assert sum(bench.api.calls.values()) == 1


@recorded
async def test_the_count_goes_on_after_a_restart_of_the_operator(bench: Bench) -> None:
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(1)
    successor = recorder(bench.api, bench.results)
    successor.emit(job(), warning("refused"))
    successor.drain()
    await successor.run()
    (event,) = sent(bench.api)
    assert event["count"] == 2


@recorded
async def test_an_expired_event_is_created_again_with_count_1(bench: Bench) -> None:
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(1)
    bench.api.objects.clear()
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(1)
    (event,) = sent(bench.api)
    assert event["count"] == 1


@recorded
async def test_different_jobs_and_messages_are_different_events(bench: Bench) -> None:
    bench.events.emit(job("a"), normal("4 pods ready"))
    bench.events.emit(job("a"), normal("5 pods ready"))
    bench.events.emit(job("b"), normal("4 pods ready"))
    await asyncio.sleep(2)
    assert len(sent(bench.api)) == 3


@recorded
async def test_normal_events_beyond_the_budget_are_dropped_and_warnings_are_not(
    bench: Bench,
) -> None:
    for number in range(BURST + 50):
        bench.events.emit(job(f"j{number % JOBS_A_SECOND}"), normal(f"{number} pods ready"))
    for number in range(50):
        bench.events.emit(job(f"j{number}"), warning("refused"))
    await asyncio.sleep(5)
    assert bench.results["Normal", "sent"] == BURST
    assert bench.results["Normal", "over_budget"] == 50
    assert bench.results["Warning", "sent"] == 50


@recorded
async def test_a_warning_does_not_wait_behind_normal_events(bench: Bench) -> None:
    bench.events.emit(job(), normal("ready"))
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(HELD_SECONDS / 2)
    assert [body["message"] for body in sent(bench.api)] == ["refused"]
    await asyncio.sleep(HELD_SECONDS)
    assert [body["message"] for body in sent(bench.api)] == ["refused", "ready"]


@recorded
async def test_no_job_of_many_a_second_has_normal_events_and_each_has_its_warnings(
    bench: Bench,
) -> None:
    for number in range(2 * JOBS_A_SECOND):
        bench.events.emit(job(f"j{number}"), normal("ready"))
        bench.events.emit(job(f"j{number}"), warning("refused"))
    # The jobs of other namespaces have theirs.
    bench.events.emit(job("other", namespace="b"), normal("ready"))
    await asyncio.sleep(1)
    bench.events.emit(job("later"), normal("ready"))
    await asyncio.sleep(2)
    named = {body["involvedObject"]["name"] for body in sent(bench.api) if is_normal(body)}
    assert named == {"other", "later"}
    assert bench.results["Normal", "over_budget"] == 2 * JOBS_A_SECOND
    assert bench.results["Warning", "sent"] == 2 * JOBS_A_SECOND


@recorded
async def test_a_warning_is_sent_after_an_outage(bench: Bench) -> None:
    bench.api.before = lambda verb, kind, name: Unavailable(kind=kind, code=503)
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(1.5)
    bench.api.before = lambda verb, kind, name: None
    await asyncio.sleep(5)
    assert len(sent(bench.api)) == 1


@recorded
async def test_an_event_whose_answer_was_lost_is_counted_once(bench: Bench) -> None:
    bench.api.lost = 1
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(0.5)
    bench.events.emit(job(), warning("refused again"))
    await asyncio.sleep(5)
    (event,) = sent(bench.api)
    assert (event["count"], event["message"]) == (2, "refused again")


@recorded
async def test_an_event_that_is_forbidden_is_dropped(bench: Bench) -> None:
    def refuse(verb: str, kind: str, name: str) -> ApiError:
        return Forbidden(kind=kind, code=403)

    bench.api.before = refuse
    bench.events.emit(job(), warning("refused"))
    await asyncio.sleep(60)
    assert sum(bench.api.calls.values()) == 1
    assert bench.results["Warning", "error"] == 1


@virtual_time.in_virtual_time
async def test_a_bucket_fills_at_its_rate_up_to_its_burst() -> None:
    bucket = TokenBucket(rate=RATE, burst=BURST, clock=VirtualClock())
    assert sum(bucket.take() for _ in range(1000)) == BURST
    await asyncio.sleep(1)
    assert sum(bucket.take() for _ in range(1000)) == RATE
    await asyncio.sleep(3600)
    assert sum(bucket.take() for _ in range(1000)) == BURST


@recorded
async def test_an_event_that_waits_keeps_no_spec_of_its_job(bench: Bench) -> None:
    class Spec(dict[str, Any]):
        """Can be referred to weakly, which a dict cannot."""

    spec = Spec(tasks=[])
    kept = weakref.ref(spec)
    bench.events.emit({**job(), "spec": spec}, warning("refused"))
    del spec
    gc.collect()
    assert kept() is None
