"""Errors of the store, in the form of an API server."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A request that failed; `code` is the HTTP status, `reason` that of the `Status`."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        super().__init__(message)

    def status(self) -> dict[str, Any]:
        """Return the body of the response."""
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
    """Return the error for a missing object."""
    return Refused(404, "NotFound", f'{plural} "{name}" not found')


def conflict(plural: str, name: str, why: str) -> Refused:
    """Return the error for an object that has changed."""
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{name}": {why}')


def invalid(message: str) -> Refused:
    """Return the error for an invalid request."""
    return Refused(422, "Invalid", message)
