"""Errors of REST requests: an exception type for each HTTP status that several services use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar


class Problem(Exception):
    """A request that failed; the message is for the person who sent it."""

    status: ClassVar[int]

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        """`headers` are those that the status requires."""
        super().__init__(message)
        self.message = message
        self.headers = headers or {}


class Malformed(Problem):
    """The id, the query, the headers or the body violate the contract."""

    status = 400


class Unidentified(Problem):
    """The caller has not authenticated, or the token is not valid."""

    status = 401

    def __init__(self, message: str) -> None:
        super().__init__(message, {"WWW-Authenticate": "Bearer"})


class NotAllowed(Problem):
    """The caller is known and has no permission for this job."""

    status = 403


class Later(Problem):
    """A retry can succeed after the seconds in the response."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        # RFC 9110 section 10.2.3: whole seconds; 0 would cause a busy loop.
        super().__init__(message, {"Retry-After": str(max(1, math.ceil(retry_after)))})


class Busy(Later):
    """A backend of the service is unreachable or overloaded."""

    status = 503
