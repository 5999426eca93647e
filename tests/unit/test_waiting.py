"""Waiting for a state in tests: which errors mean "not yet", and how a time-out reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from di_cluster.errors import CommandFailed
from tests import waiting
from tests.waiting import wait_until, wait_until_async

NO_LOGS = CommandFailed(command="kubectl logs", reason="exit code 1", output="ContainerCreating")
NOT_YET = [AssertionError("no"), KeyError("status"), IndexError(), NO_LOGS]


def after(*errors: Exception) -> Callable[[], str]:
    """A predicate that raises each of the errors, then answers."""
    left = iter(errors)

    def predicate() -> str:
        for error in left:
            raise error
        return "there"

    return predicate


def asynchronous(*arguments: Any, **options: Any) -> Any:
    return asyncio.run(wait_until_async(*arguments, **options))


@pytest.mark.parametrize("wait", [wait_until, asynchronous])
def test_a_wait_asks_again_until_the_state_comes_or_the_time_is_over(wait: Any) -> None:
    assert wait(after(*NOT_YET), every=0) == "there"
    with pytest.raises(ZeroDivisionError):
        wait(after(ZeroDivisionError()), every=0)
    with pytest.raises(AssertionError, match=r"waited 0 s for logs; .*ContainerCreating"):
        wait(after(NO_LOGS), 0, what="logs")


@pytest.mark.parametrize(("question", "most"), [(0.0, 300), (0.2, 150)])
def test_a_long_wait_asks_less_often(
    question: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = 0.0, 0

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    def is_there() -> bool:
        nonlocal asked
        asked += 1
        pass_time(question)
        return now > 100

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now, sleep=pass_time))
    assert wait_until(is_there)
    assert most / 2 < asked < most
    assert now < 101
