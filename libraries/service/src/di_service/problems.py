"""Why a REST request is refused: an exception type for each HTTP status of several services."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar


class Problem(Exception):
    """A request that gets no success; the message is for the person who sent it."""

    status: ClassVar[int]

    def __init__(self, message: str, headers: Mapping[str, str] | None = None) -> None:
        """`headers` are those the status requires."""
        super().__init__(message)
        self.message = message
        self.headers = headers or {}


class Malformed(Problem):
    """The id, the query, the headers or the body are not what the contract says."""

    status = 400


class Unidentified(Problem):
    """The caller has to say who they are, or the token does not hold."""

    status = 401

    def __init__(self, message: str) -> None:
        super().__init__(message, {"WWW-Authenticate": "Bearer"})


class NotAllowed(Problem):
    """The caller is known and may not do this to this job."""

    status = 403


class Later(Problem):
    """The same request may succeed later, after the seconds that the response names."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        # RFC 9110 section 10.2.3: whole seconds; 0 would invite a hot loop.
        super().__init__(message, {"Retry-After": str(max(1, math.ceil(retry_after)))})


class Busy(Later):
    """What the service needs to answer is away or too busy."""

    status = 503
