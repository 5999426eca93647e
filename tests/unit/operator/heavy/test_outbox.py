"""What waits to be sent is bounded in bytes, and no namespace takes another one's turn."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from di_operator.cluster.informer_state import transform_job
from di_operator.notifications.outbox import (
    BURST,
    MOST_BYTES,
    OVERHEAD,
    Notification,
    Outbox,
)
from di_operator.process.controller import JobKey
from tests.unit.operator.heavy.bodies import BEYOND, heavy, started
from tests.unit.operator.test_notifications import AT, Scene

BODY = b"x" * 1000
FITTING = MOST_BYTES // (len(BODY) + OVERHEAD)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.dropped = 0

    def drop(self) -> None:
        self.dropped += 1

    def outbox(self) -> Outbox:
        return Outbox("chat", monotonic=lambda: self.now, dropped=self.drop)


def _sent(outbox: Outbox) -> list[Notification]:
    return list(iter(outbox.take, None))


def _fill(outbox: Outbox, namespace: str, number: int) -> None:
    for index in range(number):
        outbox.put(Notification(namespace, f"job-{index}", "Failed", BODY))


@pytest.mark.proves("operations.md#notifications/what-waits")
def test_a_queue_holds_so_many_bytes_and_drops_the_oldest() -> None:
    clock = _Clock()
    outbox = clock.outbox()
    with capture_logs() as lines:
        _fill(outbox, "a", FITTING + 50)
    assert (outbox.bytes <= MOST_BYTES, len(outbox), clock.dropped) == (True, FITTING, 50)
    (line,) = lines
    assert (line["namespace"], line["target"], line["log_level"]) == ("a", "chat", "warning")
    found = outbox.take()
    assert found is not None
    assert found.name == "job-50"


def test_a_full_queue_drops_those_of_the_namespace_with_most() -> None:
    outbox = _Clock().outbox()
    _fill(outbox, "quiet", 5)
    with capture_logs() as lines:
        _fill(outbox, "loud", 2 * FITTING)
    assert Counter(each.namespace for each in _sent(outbox))["quiet"] == 5
    assert {line["namespace"] for line in lines} == {"loud"}


@pytest.mark.proves("operations.md#notifications/a-namespace")
def test_a_namespace_has_a_rate_and_the_others_take_their_turns() -> None:
    clock = _Clock()
    outbox = clock.outbox()
    _fill(outbox, "loud", 2 * BURST)
    _fill(outbox, "quiet", 3)
    order = [each.namespace for each in _sent(outbox)]
    assert order[:6] == ["loud", "quiet"] * 3
    assert Counter(order) == {"loud": BURST, "quiet": 3}
    assert (outbox.take(), outbox.wait()) == (None, 1.0)
    clock.now += 5
    assert len(_sent(outbox)) == 5


def test_an_empty_queue_waits_for_nothing() -> None:
    outbox = _Clock().outbox()
    assert (outbox.take(), outbox.wait(), outbox.bytes) == (None, None, 0)


def test_a_loss_is_logged_again_once_the_namespace_had_nothing_waiting() -> None:
    clock = _Clock()
    outbox = clock.outbox()
    for _ in range(2):
        with capture_logs() as lines:
            _fill(outbox, "a", FITTING + 5)
        assert len(lines) == 1
        while len(outbox):
            clock.now += 60
            _sent(outbox)


def test_heavy_jobs_that_fail_together_take_no_memory_of_notifications(tmp_path: Path) -> None:
    number = 20
    failed = {
        **started(),
        "phase": "Failed",
        "conditions": [
            {"type": "Failed", "status": "True", "message": "m", "lastTransitionTime": AT}
        ],
    }
    jobs: dict[JobKey, Mapping[str, Any]] = {}
    for index in range(number):
        body = heavy(0, name=f"job-{index}", status=failed)
        body["spec"]["padding"] = "x" * BEYOND
        jobs[JobKey("ns", f"job-{index}")] = {**transform_job(body), "spec": body["spec"]}
    scene = _Unheard(tmp_path / "url", jobs)

    async def note_all() -> int:
        notifier = scene.notifier()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for key in jobs:
                await notifier._note(key)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert sum(map(len, notifier._outboxes.values())) == number
        return after - before

    assert asyncio.run(note_all()) < number * 8192


class _Unheard(Scene):
    """Many jobs, whose notes are taken and whose target cannot be reached."""

    def __init__(self, url_file: Path, jobs: Mapping[JobKey, Mapping[str, Any]]) -> None:
        super().__init__(receiver=None, url_file=url_file)  # type: ignore[arg-type]  # none answers
        self.jobs = jobs

    @override
    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        return self.jobs.get(key)

    @override
    async def patch(self, *words: Any, **_: Any) -> dict[str, Any]:
        return {}
