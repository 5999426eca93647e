"""Errors of the API server: one exception type per reaction of the caller.

Callers distinguish by type (`except Conflict`), never by code or message text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MAX_MESSAGE = 2048
_MAX_CAUSES = 50
_QUOTA_PHRASE = "exceeded quota"
_NOT_ADMITTED = "failed calling webhook"
"""Words of the API server, which calls webhooks before it writes."""


class ApiError(Exception):
    """A request that failed.

    Attributes:
        kind: kind of the requested object, e.g. "Pod".
        namespace: its namespace; None for cluster-scoped kinds and all-namespace lists.
        name: its name; None for collections.
        code: HTTP status; 0 without a usable response.
        reason: the machine-readable `Status.reason`, or one of "Timeout", "ConnectionError",
            "BadBody", "WatchSilent", "WatchCut" if the response is missing or broken.
        message: the server's message, cut at 2048 characters.
        retry_after: seconds to wait as requested by the server; None without a request.
        causes: the wrong fields, each with the reason, at most 50; empty if the server names none.
    """

    def __init__(
        self,
        *,
        kind: str,
        namespace: str | None = None,
        name: str | None = None,
        code: int = 0,
        reason: str = "",
        message: str = "",
        retry_after: float | None = None,
        causes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.code = code
        self.reason = reason
        self.message = message[:_MAX_MESSAGE]
        self.retry_after = retry_after
        self.causes = causes
        super().__init__(f"{self.target}: {code or 'no answer'} {reason}: {self.message}")

    @property
    def target(self) -> str:
        """Return the requested object or collection, e.g. "Pod default/a" or "Pod *"."""
        path = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.kind} {path or '*'}"


class NotFound(ApiError):
    """404: no such object (or the kind is not served yet)."""


class AlreadyExists(ApiError):
    """409 on create: the name is taken; read the object to find its owner."""


class Conflict(ApiError):
    """409: the object changed since it was read, or a delete precondition failed."""


class Gone(ApiError):
    """410: the resource version is too old (or not yet known); list again."""


class Invalid(ApiError):
    """400, 413, 415 or 422: the request itself is wrong; a retry never succeeds."""


class Unauthorized(ApiError):
    """401: the credentials are missing, expired or unknown."""


class Forbidden(ApiError):
    """403: not allowed by RBAC, admission or quota."""

    @property
    def is_quota(self) -> bool:
        """Return whether a ResourceQuota refused it: a retry succeeds once the quota has space."""
        return _QUOTA_PHRASE in self.message


class Throttled(ApiError):
    """429: the server is overloaded; wait `retry_after`."""


class Unavailable(ApiError):
    """No response, a broken one, 408 or 5xx: the result of a write is unknown."""


class Unwritten(Unavailable):
    """A write had no effect: there was no connection, or a webhook that has to admit it did not
    answer.
    """


class Silent(Unavailable):
    """A watch was silent for too long: the connection is lost, or the collection has no changes.

    Bookmarks are not guaranteed: the API server sends none while the version at which the watch
    began is newer than the last one of the collection. The next stream shows whether the server is
    reachable.
    """


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    408: Unavailable,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Throttled,
}


def from_status(
    code: int,
    body: object,
    headers: Mapping[str, str],
    *,
    kind: str,
    namespace: str | None = None,
    name: str | None = None,
) -> ApiError:
    """Return the typed error for a response.

    Args:
        code: HTTP status, or `Status.code` of an ERROR watch event.
        body: the decoded `Status`; anything else (a proxy's page as str, None) is accepted.
        headers: response headers; `Retry-After` in seconds is read.
        kind, namespace, name: of the requested object.
    """
    status: Mapping[str, Any] = body if isinstance(body, dict) else {}
    reason = _text(status.get("reason"))
    message = _text(status.get("message")) or (body if isinstance(body, str) else "")
    return _type_for(code, reason, message, status)(
        kind=kind,
        namespace=namespace,
        name=name,
        code=code,
        reason=reason,
        message=message,
        retry_after=_retry_after(status, headers),
        causes=tuple(
            (_text(cause.get("field")), _text(cause.get("message"))[:_MAX_MESSAGE])
            for cause in _causes(status)[:_MAX_CAUSES]
        ),
    )


def _type_for(code: int, reason: str, message: str, status: Mapping[str, Any]) -> type[ApiError]:
    if code == 500 and _NOT_ADMITTED in message:
        return Unwritten
    if reason == "AlreadyExists":
        return AlreadyExists
    # After etcd is restored from a backup our version is in the server's future. The server
    # responds 504 forever, and only a new list helps.
    if reason == "Expired" or "ResourceVersionTooLarge" in _cause_reasons(status):
        return Gone
    return _BY_CODE.get(code) or (Unavailable if code >= 500 or code == 0 else ApiError)


def _cause_reasons(status: Mapping[str, Any]) -> list[str]:
    return [_text(cause.get("reason")) for cause in _causes(status)]


def _causes(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    causes = _details(status).get("causes")
    if not isinstance(causes, list):
        return []
    return [cause for cause in causes if isinstance(cause, dict)]


def _retry_after(status: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait. The date form of the header is ignored: no Kubernetes server
    sends it.
    """
    for value in (headers.get("Retry-After"), _details(status).get("retryAfterSeconds")):
        try:
            seconds = float(value)  # type: ignore[arg-type]  # None and junk raise, as wanted
        except (TypeError, ValueError):
            continue
        if 0 < seconds < float("inf"):
            return seconds
    return None


def _details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    details = status.get("details")
    return details if isinstance(details, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
