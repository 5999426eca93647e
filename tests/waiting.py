"""Waiting for a state with a deadline, never for a fixed time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, overload

import requests

from di_cluster.errors import CommandFailed

# Ten times what an idle machine needs, and more: a deadline costs nothing unless a test fails. All
# are below pytest's own time-out, so that a test that fails says what it has waited for.
DEADLINE: Final = 240.0
"""Seconds for any state."""
SLOW_SECONDS: Final = 900.0
"""For a state that takes a minute on an idle machine too: what a kubelet reads again once a minute,
what is reported after a minute, a retry after several delays."""
START_SECONDS: Final = 600.0
"""For a service to be ready."""
STOP_SECONDS: Final = 120.0
"""For a process that was asked to end."""
TRAINING_SECONDS: Final = 1500.0
"""For an example to train to its end."""
ANSWER_SECONDS: Final = 60.0
"""For an answer to a request."""

T = TypeVar("T")

# What a predicate says of a state that has not come: it is not so, what it looks for is not there,
# or the program that it asks cannot tell (a container that has not started has no logs).
_NOT_YET = (AssertionError, LookupError, CommandFailed)


def wait_until(
    predicate: Callable[[], T],
    deadline: float = DEADLINE,
    *,
    what: str = "",
    every: float | None = None,
) -> T:
    """Ask `predicate` until its answer is true, and return that answer.

    Args:
        predicate: AssertionError, LookupError and CommandFailed mean "not yet"; other exceptions
            are not caught.
        deadline: seconds from now; less than the default only where the time itself is meant.
        what: the state waited for, in words; default the predicate's name.
        every: seconds between two questions; None: few at first, more the longer it takes and the
            longer a question takes, so that waiting leaves the processor to what is waited for.

    Raises:
        AssertionError: the deadline passed; says what was waited for and the last answer.
    """
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        answer: object
        try:
            answer = found = predicate()
            if found:
                return found
        except _NOT_YET as error:
            answer = error
        if time.monotonic() >= began + deadline:
            raise AssertionError(_complaint(predicate, deadline, what, answer))
        time.sleep(_pause(began, asked, time.monotonic()) if every is None else every)


@overload
async def wait_until_async(
    predicate: Callable[[], Awaitable[T]],
    deadline: float = ...,
    *,
    what: str = ...,
    every: float | None = ...,
) -> T: ...


@overload
async def wait_until_async(
    predicate: Callable[[], T], deadline: float = ..., *, what: str = ..., every: float | None = ...
) -> T: ...


async def wait_until_async(
    predicate: Callable[[], object],
    deadline: float = DEADLINE,
    *,
    what: str = "",
    every: float | None = None,
) -> object:
    """`wait_until` for coroutines; the predicate may be a plain or an async function."""
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        answer: object
        try:
            found = predicate()
            answer = await found if inspect.isawaitable(found) else found
            if answer:
                return answer
        except _NOT_YET as error:
            answer = error
        if time.monotonic() >= began + deadline:
            raise AssertionError(_complaint(predicate, deadline, what, answer))
        await asyncio.sleep(_pause(began, asked, time.monotonic()) if every is None else every)


def _pause(began: float, asked: float, now: float) -> float:
    """Seconds to the next question: a twentieth of the wait, twice a question, half a second at
    most."""
    return min(0.5, max(0.02, 2 * (now - asked), (now - began) / 20))


def _complaint(predicate: object, deadline: float, what: str, answer: object) -> str:
    state = what or getattr(predicate, "__qualname__", repr(predicate))
    return f"waited {deadline:g} s for {state}; the last answer was {answer!r}"


def answers_well(url: str) -> bool:
    """Whether the URL answers 200 now."""
    try:
        return requests.get(url, timeout=ANSWER_SECONDS).status_code == 200
    except requests.RequestException:
        return False
