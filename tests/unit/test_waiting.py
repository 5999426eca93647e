"""Waiting for a state in tests: which errors mean "not yet", and how a time-out reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from di_cluster.errors import CommandFailed
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
