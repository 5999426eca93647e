"""Common parts of the API server's reviews: bytes in, HTTP response out.

A review is an envelope with a request that has a UID; the response is an envelope of the same kind
with a response of that UID. An invalid envelope gets HTTP 400; a valid one always gets HTTP 200
with a decision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from di_api import strict_json

CONVERT: Final = "/convert"
"""Path of conversions."""
# A UID has 36 characters; a longer one is invalid and would be echoed.
MAX_UID: Final = 256
MAX_VALUES: Final = 384 * 1024
"""Maximum number of values in a review (objects, lists, strings, numbers, ...): two old jobs of 1.5
MiB can have up to 350,000. Parsing as many takes a fifth of a second.
"""
_HEAD: Final = 4096
"""Bytes at the beginning of a review that contain what the API server writes besides the object."""
_NAMESPACE: Final = re.compile(rb'"namespace":\s*"([^"\\]{0,63})"')
_USER: Final = re.compile(rb'"userInfo":\s*\{\s*"username":\s*("(?:[^"\\]|\\.){0,512}")')
_TEXTS: Final = re.compile(
    rb'"(?:annotations|labels)":\s*+\{(?:"(?:[^"\\]|\\.)*+(?:"|\\?+\Z)|[\s:,]++)*+(?:\}|\Z)'
)
"""Maps with keys of the user's choice, complete or cut. They precede the namespace in a job."""
_UID: Final = re.compile(rb'"request":\s*\{\s*"uid":\s*"([!#-\[\]-~]{1,256})"')


class Outcome(StrEnum):
    """Result of a review; the label of the metric."""

    ALLOWED = "allowed"
    DENIED = "denied"
    CONVERTED = "converted"
    FAILED = "failed"
    """A conversion failed."""
    MALFORMED = "malformed"

    @property
    def is_the_rule(self) -> bool:
        """Return whether nearly all reviews have this outcome."""
        return self in (Outcome.ALLOWED, Outcome.CONVERTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response, and its log fields."""

    status: int
    body: Mapping[str, Any]
    outcome: Outcome
    operation: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    message: str = ""


class Malformed(ValueError):
    """An envelope that is not a review; has the uid if it was readable."""

    def __init__(self, message: str, *, uid: str = "") -> None:
        self.uid = uid
        super().__init__(message)


class TooLarge(Malformed):
    """A review with too many values; has the uid if it was readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of review, and the envelope of its responses."""

    api_version: str
    kind: str

    def request(self, body: bytes) -> tuple[str, dict[str, Any]]:
        """Return UID and request of a review.

        Raises:
            TooLarge: the body has more than MAX_VALUES values.
            Malformed: the body is not a review of this kind.
        """
        try:
            review = strict_json.loads(body, max_values=MAX_VALUES)
        except strict_json.TooManyValues as error:
            found = _UID.search(body, 0, _HEAD)
            uid = found[1].decode() if found else ""
            raise TooLarge(f"the review is refused unread: it {error}", uid=uid) from error
        except strict_json.MalformedJson as error:
            raise Malformed(f"the body is refused: {error}") from error
        if not isinstance(review, dict):
            raise Malformed("the body is not an object")
        request = review.get("request")
        if not isinstance(request, dict):
            raise Malformed("request must be an object")
        uid = request.get("uid")
        if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID:
            raise Malformed(f"request.uid must be a string of 1 to {MAX_UID} characters")
        if (review.get("apiVersion"), review.get("kind")) != (self.api_version, self.kind):
            raise Malformed(f"the body must be a {self.kind} of {self.api_version}", uid=uid)
        return uid, request

    def envelope(self, uid: str, response: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the review that answers the one with that UID."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "response": {"uid": uid, **response},
        }


def tenant_of(path: str, body: bytes) -> str:
    """Return namespace and user of a review as one text; its path if it names neither.

    Only the first bytes are read, because no thread has parsed the body yet. A body can claim any
    namespace, so the result separates only tenants of one source. No string value can imitate the
    fields, because quotes in it are escaped. A conversion names no user, and a namespace only in
    its first job.
    """
    if path == CONVERT:
        namespace, user = _NAMESPACE.search(_TEXTS.sub(b"", body[:_HEAD])), None
    else:
        namespace, user = _NAMESPACE.search(body, 0, _HEAD), _USER.search(body, 0, _HEAD)
    found = [each[1].decode("utf-8", "replace") if each else "" for each in (namespace, user)]
    return " ".join(found) if any(found) else path


def malformed(error: Malformed, body: Mapping[str, Any] | None = None) -> Answer:
    """Return the response for an invalid review; `body` replaces the default body with the
    message.
    """
    message = str(error)
    return Answer(
        status=400,
        body={"message": message} if body is None else body,
        outcome=Outcome.MALFORMED,
        uid=error.uid,
        message=message,
    )


def too_large(limit: int) -> Answer:
    """Return the response for a body of more than `limit` bytes."""
    message = f"the body is larger than {limit} bytes"
    return Answer(status=413, body={"message": message}, outcome=Outcome.MALFORMED, message=message)
