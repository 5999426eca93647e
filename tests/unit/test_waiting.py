"""Tests wait for states: what says "not yet", and what is said when a state never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from di_cluster.errors import CommandFailed
from tests.waiting import wait_until, wait_until_async

NO_LOGS = CommandFailed(command="kubectl logs", reason="exit code 1", output="ContainerCreating")
NOT_YET = [AssertionError("no"), KeyError("status"), IndexError(), NO_LOGS]


def after(errors: list[Exception]) -> Callable[[], str]:
    """Raises each of the errors, then answers."""
    left = iter(errors)

    def predicate() -> str:
        for error in left:
            raise error
        return "there"

    return predicate


def test_a_state_that_is_not_there_yet_is_asked_for_again() -> None:
    assert wait_until(after(NOT_YET), every=0) == "there"
    assert asyncio.run(wait_until_async(after(NOT_YET), every=0)) == "there"


def test_any_other_error_is_nothing_to_wait_for() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(after([ZeroDivisionError()]), every=0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(wait_until_async(after([ZeroDivisionError()]), every=0))


def test_a_state_that_never_comes_is_named_with_the_last_answer() -> None:
    with pytest.raises(AssertionError, match=r"waited 0 s for logs; .*ContainerCreating"):
        wait_until(after([NO_LOGS]), 0, what="logs")
    with pytest.raises(AssertionError, match=r"waited 0 s for logs; .*ContainerCreating"):
        asyncio.run(wait_until_async(after([NO_LOGS]), 0, what="logs"))
