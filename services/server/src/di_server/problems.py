"""Errors of the server: one exception type per HTTP status of the contract."""

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
    "Unsettled",
    "from_api_error",
]

_BACK_OFF: Final = 2.0
"""Seconds until a retry, if the API server names none."""


class NoSuchJob(Problem):
    """There is no job, coordinator or aggregator with that name."""

    status = 404


class NoAggregatorConfig(Problem):
    """Learners on several GPUs are requested, and there is no template for their aggregators."""

    status = 404


class SlowRequest(Problem):
    """The body did not arrive in time."""

    status = 408


class NotNow(Problem):
    """The state of the job, or of the Idempotency-Key, forbids it; a retry does not help."""

    status = 409


class TooLarge(Problem):
    """The body exceeds the server's limit."""

    status = 413


class OutOfBounds(Problem):
    """A value is valid but beyond a bound, which the message names."""

    status = 422


class HeadersTooLarge(Problem):
    """The headers exceed the server's limit."""

    status = 431


class TooMany(Later):
    """The requests of one job, or the refusals of one address, exceed their rate limit."""

    status = 429


class Unsettled(Problem):
    """The API server did not answer a change, which may have taken effect."""

    status = 504

    def __init__(self) -> None:
        super().__init__(
            "the API server did not say whether the change has taken effect: send the request "
            "again with the same Idempotency-Key, if it has one, else look first"
        )


class OverBudget(Busy):
    """Too many concurrent unknown callers; this says nothing about the present one.

    Attributes:
        retry_after: seconds until the budget has a call.
    """

    def __init__(self, *, retry_after: float) -> None:
        super().__init__(
            "too many callers ask at once whom this server does not know yet, try again",
            retry_after=retry_after,
        )
        self.retry_after = retry_after


def from_api_error(error: ApiError) -> Problem:
    """Return the problem for a client when the API server refused a call on its behalf."""
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
            # Includes 401: the server's own credentials, which the client cannot fix.
            return Busy(
                f"the API server cannot be used now ({error.reason or error.code})",
                retry_after=error.retry_after or _BACK_OFF,
            )
