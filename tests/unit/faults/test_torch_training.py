"""The tally of kills and suspensions of trainings, without a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools.faults.torch_training import tally


class Training:
    """A training for which each turn has a configured outcome."""

    def __init__(self, name: str, outcomes: list[int | str]) -> None:
        self.name = name
        self.outcomes = outcomes

    @contextmanager
    def running(self) -> Iterator[None]:
        yield

    def wait_for_steps(self) -> int:
        return 0

    def befall(self, turn: int) -> tuple[int, int]:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, str):
            raise AssertionError(outcome)
        return outcome, 0


def test_each_two_turns_have_a_new_job_and_wrong_ones_are_counted() -> None:
    outcomes: list[int | str] = [3, 7, "12 steps lost by a kill", 1]
    made: list[str] = []

    def make(name: str) -> Training:
        made.append(name)
        return Training(name, outcomes)

    found = tally(make, 5)
    assert made == ["torch-0", "torch-2", "torch-4"]
    assert (found.kills, found.suspensions, found.most_lost) == (3, 3, 7)
    assert found.wrong == ["12 steps lost by a kill"]
