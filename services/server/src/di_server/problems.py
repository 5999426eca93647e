"""Why a request is refused: one exception type per HTTP status the contract names."""

from __future__ import annotations

from typing import Final

from di_api.names import KIND
from di_kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from di_service.problems import Busy, Later, Malformed, NotAllowed, Problem, Unidentified

__all__ = [
    "Busy",
    "HeadersTooLarge",
    "Malformed",
    "NoAggregatorConfig",
    "NoSuchJob",
    "NotAllowed",
    "NotNow",
    "OutOfBounds",
    "OverBudget",
    "Problem",
    "SlowRequest",
    "TooLarge",
    "TooMany",
    "Unidentified",
    "from_api_error",
]

_BACK_OFF: Final = 2.0
"""Seconds a client is told to wait when the API server does not say how long."""


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


class TooMany(Later):
    """More requests for one job than its rate, or more refusals of one address."""

    status = 429


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
