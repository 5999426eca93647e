"""Why a request is refused: one exception type per HTTP status."""

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
    """The query is not what the contract says."""

    status = 400


class Unidentified(Problem):
    """The caller has to say who they are, or the token does not hold."""

    status = 401

    def __init__(self, message: str) -> None:
        super().__init__(message, {"WWW-Authenticate": "Bearer"})


class NotAllowed(Problem):
    """The caller is known and may not see this."""

    status = 403


class NotKept(Problem):
    """Nothing is kept under that name."""

    status = 404


class Busy(Problem):
    """The database or the API server is away; the same request may succeed later."""

    status = 503

    def __init__(self, message: str, *, retry_after: float = 2.0) -> None:
        # RFC 9110 section 10.2.3: whole seconds; 0 would invite a hot loop.
        super().__init__(message, {"Retry-After": str(max(1, math.ceil(retry_after)))})
