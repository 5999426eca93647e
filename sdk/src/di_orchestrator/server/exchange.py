"""The logic of retries until a request is answered, without I/O.

An exchange is a generator: it yields a request or a delay, receives the outcome, and returns the
result. `client` and `aio` run the same exchanges.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar, Union

from di_orchestrator.errors import Refused, Unreachable

ANSWER_SECONDS = 10.0
"""Maximum seconds of di-server for a response, except for requests that wait."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
MAX_REASON = 500
"""Maximum characters of a response in an error."""
NOT_MODIFIED = 304
_ANSWERED = (200, NOT_MODIFIED)
_REFUSED_FOR_NOW = (408, 429, 503)
"""Statuses for which nothing was done, and a retry can succeed."""
_UNSETTLED = (502, 504)
"""Statuses of di-server without an answer of the API server, and of a proxy without one of
di-server: a change may have taken effect.
"""

_ODD = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors from reading JSON of an unexpected form."""

T = TypeVar("T")
Clock = Callable[[], float]


@dataclass(frozen=True)
class Request:
    """One request to di-server.

    Attributes:
        path: below the server's URL.
        seconds: timeout for the whole response.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = ANSWER_SECONDS

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Answer:
    """A response of any status.

    Attributes:
        retry_after: seconds, if present.
        tag: its ETag, if it has one.
    """

    status: int
    body: bytes = b""
    retry_after: float = 0.0
    tag: str = ""

    @property
    def message(self) -> str:
        """Return the message of di-server, or of a proxy in between."""
        try:
            return str(json.loads(self.body)["message"])[:MAX_REASON]
        except _ODD:
            return self.body[:MAX_REASON].decode(errors="replace") or "no words"


@dataclass(frozen=True)
class Silence:
    """No response arrived, so the request may have taken effect; `reason` is the
    transport's error.
    """

    reason: str


@dataclass(frozen=True)
class Pause:
    """A delay of some seconds."""

    seconds: float


Exchange = Generator[Union[Request, Pause], Union[Answer, Silence, None], T]


@dataclass(frozen=True)
class Patience:
    """How long, and how, to retry.

    Attributes:
        seconds: from the first request until `Unreachable`; infinite for followers.
        random: jitter of the delays, so that pods that lost the same server do not return together.
    """

    seconds: float = 60.0
    random: Random = field(default_factory=Random)


def ask(
    request: Request,
    read: Callable[[Any], T],
    patience: Patience,
    clock: Clock,
    *,
    repeatable: bool = True,
) -> Exchange[T]:
    """Return the result of `read` on the response's data.

    Args:
        read: parses the data; can raise LookupError, TypeError and ValueError for data of another
            server.
        repeatable: whether to retry if it is unknown whether the request took effect.

    Raises:
        Refused: by di-server; a retry would not help.
        Unreachable: the time is over.
    """
    found = yield from answer(request, patience, clock, repeatable=repeatable)
    return data(request, found, read)


def answer(
    request: Request, patience: Patience, clock: Clock, *, repeatable: bool = True
) -> Exchange[Answer]:
    """Return the response, of status 200 or 304. Arguments and errors as in `ask`."""
    ends, pause = clock() + patience.seconds, FIRST_PAUSE
    while True:
        left = max(ends - clock(), 0.001)
        found = yield replace(request, seconds=min(request.seconds, left))
        if isinstance(found, Answer) and found.status in _ANSWERED:
            return found
        reason, least = _judge(request, found, repeatable=repeatable)
        wait = max(least, pause * (0.5 + patience.random.random()))
        if clock() + wait >= ends:
            raise Unreachable(
                f"{request} had no answer within {patience.seconds:g} s: {reason}; is di-server "
                "running, and does DI_SERVER_URL lead to it?"
            )
        yield Pause(wait)
        pause = min(2 * pause, LONGEST_PAUSE)


def _judge(
    request: Request, found: Answer | Silence | None, *, repeatable: bool
) -> tuple[str, float]:
    """Return the reason for a retry, and its minimum delay in seconds."""
    if isinstance(found, Answer):
        said = f"{found.message} (HTTP {found.status})"
        if found.status in _REFUSED_FOR_NOW:
            return said, found.retry_after
        if found.status not in _UNSETTLED:
            raise Refused(str(request), found.status, found.message)
    else:
        said = found.reason if found else "nothing was sent"
    if not repeatable:
        raise Unreachable(f"{request} may have taken effect: {said}; look before asking again")
    return said, 0.0


def data(request: Request, found: Answer, read: Callable[[Any], T]) -> T:
    """Return the result of `read` on a response's data. Arguments and errors as in `ask`."""
    try:
        return read(json.loads(found.body)["data"])
    except _ODD:
        raise Unreachable(
            f"{request}: the answer is none of di-server's: {found.body[:100]!r}; does "
            "DI_SERVER_URL lead to it?"
        ) from None
