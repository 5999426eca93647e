"""The tally of events that happened to process groups, without a node."""

from __future__ import annotations

from typing import Any

from di_cluster.errors import CommandFailed
from tests.e2e.whole_groups import EVENTS
from tools.faults.whole_groups import PROGRAMS, tally


class Group:
    """A group for which each event has a configured outcome, and takes three seconds."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = [*outcomes]
        self.calls: list[str] = []
        self.now = 0.0

    def start(self) -> None:
        self.calls.append("start")

    def remove(self) -> None:
        self.calls.append("remove")

    def befall(self, event: str) -> None:
        self.calls.append(event)
        self.now += 3.0
        if (outcome := self.outcomes.pop(0)) is not None:
            raise outcome


def tallied(group: Any, times: int) -> dict[str, object]:
    return tally(group, "kill", times, clock=lambda: group.now).line()


def test_each_job_has_two_events_and_is_removed() -> None:
    group = Group(None, None, None)
    assert tallied(group, 3) == {
        "event": "kill",
        "times": 3,
        "halves": 0,
        "wrong": [],
        "median_seconds": 3.0,
    }
    assert group.calls == ["start", "kill", "kill", "remove", "start", "kill", "remove"]


def test_a_half_is_counted_and_the_next_event_has_a_new_job() -> None:
    group = Group(
        AssertionError("x-0 was not replaced"),
        CommandFailed(command="kubectl", reason="ended with 1", output="no"),
        None,
    )
    found = tallied(group, 3)
    assert (found["times"], found["halves"], found["median_seconds"]) == (3, 2, 3.0)
    assert "x-0 was not replaced" in str(found["wrong"])
    assert group.calls.count("start") == 3


def test_every_program_and_event_of_the_tests_is_known() -> None:
    assert {"sockets", "torchrun", "jax", "mpi"} == PROGRAMS.keys()
    assert {"evict", "delete", "drain", "preempt", "grow", "shrink", "kill"} <= {*EVENTS}
