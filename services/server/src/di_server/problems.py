"""Why a request is refused: one exception type per HTTP status the contract names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Final

from di_api.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from di_api.names import KIND

_BACK_OFF: Final = 2.0
"""Seconds a client is told to wait when the API server does not say how long."""


class Problem(Exception):
    """A request that gets no success; the message is for the person who sent it."""

    status: ClassVar[int]

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        """`headers` are those the status requires."""
        super().__init__(message)
        self.message = message
        self.headers = headers or {}


class Malformed(Problem):
    """The id, the headers or the body are not what the contract says."""

    status = 400


class Unidentified(Problem):
    """The caller has to say who they are, or the token does not hold."""

    status = 401

    def __init__(self, message: str) -> None:
        super().__init__(message, {"WWW-Authenticate": "Bearer"})


class NotAllowed(Problem):
    """The caller is known and may not do this to this job."""

    status = 403


class NoSuchJob(Problem):
    """There is no job, coordinator or aggregator of that name."""

    status = 404


class NoAggregatorConfig(Problem):
    """Learners on several GPUs are asked for, and nothing says how their aggregators are made."""

    status = 404


class SlowRequest(Problem):
    """The body did not arrive in time."""

    status = 408


class NotNow(Problem):
    """The state of the job, or of the Idempotency-Key, forbids it; waiting does not help."""

    status = 409


class TooLarge(Problem):
    """The body is longer than the server reads."""

    status = 413


class OutOfBounds(Problem):
    """Well-formed, but past a bound the message names."""

    status = 422


class HeadersTooLarge(Problem):
    """More header bytes than the server takes."""

    status = 431


class _Later(Problem):
    def __init__(self, message: str, *, retry_after: float) -> None:
        # RFC 9110 section 10.2.3: whole seconds; 0 would invite a hot loop.
        super().__init__(message, {"Retry-After": str(max(1, math.ceil(retry_after)))})


class TooMany(_Later):
    """More requests for one job than its rate, or more refusals of one address."""

    status = 429


class Busy(_Later):
    """The API server is away or too busy; the same request may succeed later."""

    status = 503


class OverBudget(Busy):
    """Too many unknown callers ask at once; it says nothing about this one.

    Attributes:
        retry_after: seconds until there is a call to spare.
    """

    def __init__(self, *, retry_after: float) -> None:
        super().__init__(
            "too many callers ask at once whom this server does not know yet, try again",
            retry_after=retry_after,
        )
        self.retry_after = retry_after


def from_api_error(error: ApiError) -> Problem:
    """The problem a client sees when the API server refused a call made for it."""
    match error:
        case NotFound() if error.kind == KIND:
            return NoSuchJob(f"no such job: {error.namespace}/{error.name}")
        case Invalid():
            return OutOfBounds(f"refused by the API server: {error.message}")
        case Forbidden():
            return NotAllowed(f"refused by the API server: {error.message}")
        case Conflict():
            return Busy("the job is being changed by others, try again", retry_after=1)
        case _:
            # Includes 401: the server's own credentials, which the client cannot mend.
            return Busy(
                f"the API server cannot be used now ({error.reason or error.code})",
                retry_after=error.retry_after or _BACK_OFF,
            )
