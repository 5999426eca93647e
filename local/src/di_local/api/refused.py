"""Why the store does not do what it is asked, as an API server says it."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A request that came to nothing; `code` is the HTTP status, `reason` that of the `Status`."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        super().__init__(message)

    def status(self) -> dict[str, Any]:
        """The body of the answer."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


def not_found(plural: str, name: str) -> Refused:
    """There is no such object."""
    return Refused(404, "NotFound", f'{plural} "{name}" not found')


def conflict(plural: str, name: str, why: str) -> Refused:
    """The object is not what the writer saw."""
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def invalid(message: str) -> Refused:
    """The request itself is wrong."""
    return Refused(422, "Invalid", message)
