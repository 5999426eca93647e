"""Responses to ConversionReviews: pure functions that accept any bytes.

The wire format is apiextensions.k8s.io/v1, https://kubernetes.io/docs/tasks/extend-kubernetes/
custom-resources/custom-resource-definition-versioning/#webhook-request-and-response. Either every
object is converted, or the review fails as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api import names
from di_api.conversion.annotation import LARGEST
from di_api.conversion.versions import ConversionFailed, convert, unpacked_bytes
from di_api.difference import written
from di_api.validation import Check, unbounded
from di_webhook.budget import MAX_SECONDS, Exhausted
from di_webhook.review import Answer, Kind, Malformed, Outcome, malformed

REVIEW: Final = Kind(api_version="apiextensions.k8s.io/v1", kind="ConversionReview")
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of all converted jobs in Python's marshal format, which is a little more than their
JSON.
"""
MAX_JOBS: Final = 8192
"""Maximum number of jobs in a review. A stored job has a UID, times and managedFields, so that a
body with more of them exceeds 3.25 MiB and is refused in any case.
"""
MAX_UNPACKED_BYTES: Final = LARGEST
"""Maximum bytes of the unpacked annotations of all jobs of older versions in a review."""
_UNPACKED: Final = (
    f"the jobs' annotations unpack to more than {MAX_UNPACKED_BYTES} bytes; list fewer"
)
_TOOK_LONG: Final = f"the jobs took more than {MAX_SECONDS:g} s of processor time; list fewer"
_LONGEST_NAME: Final = 253


class _Refused(ValueError):
    """A review that fails as a whole; the message has the reason."""


def answer(body: bytes, check: Check = unbounded) -> Answer:
    """Answer a conversion review.

    Args:
        body: the review.
        check: called before each job; raises Exhausted when the review took too long. A job's
            annotation can expand to a thousand times its size before it is found to be invalid.
    """
    try:
        uid, request = REVIEW.request(body)
    except Malformed as error:
        failure = REVIEW.envelope(error.uid, _failed(str(error))) if error.uid else None
        return malformed(error, failure)
    version, objects = request.get("desiredAPIVersion"), request.get("objects")
    if not isinstance(version, str):
        return _failure(uid, "request.desiredAPIVersion must be a string")
    if not isinstance(objects, list):
        return _failure(uid, "request.objects must be a list")
    if len(objects) > MAX_JOBS:
        return _failure(uid, f"{len(objects)} jobs are more than {MAX_JOBS}; list fewer")
    try:
        converted = _converted(objects, version, check)
    except _Refused as error:
        return _failure(uid, str(error))
    response = {"convertedObjects": converted, "result": {"status": "Success"}}
    return Answer(
        status=200,
        body=REVIEW.envelope(uid, response),
        outcome=Outcome.CONVERTED,
        operation=version,
        uid=uid,
    )


def _converted(objects: list[Any], version: str, check: Check) -> list[Mapping[str, Any]]:
    """Return all objects in the form of `version`; raises _Refused for the review as a whole."""
    converted: list[Mapping[str, Any]] = []
    size = unpacked = 0
    for found in objects:
        # Before the conversion, which parses what an annotation expands to, valid or not.
        unpacked += unpacked_bytes(found) if version == names.API_VERSION else 0
        if unpacked > MAX_UNPACKED_BYTES:
            raise _Refused(_UNPACKED)
        try:
            check()
            job = convert(found, version)
        except ConversionFailed as error:
            raise _Refused(f"{_called(found)}: {error}") from error
        except Exhausted as error:
            raise _Refused(_TOOK_LONG) from error
        # An annotation can expand to a thousand times its own size.
        size += len(written(job) or b"")
        if size > MAX_ANSWER_BYTES:
            raise _Refused(f"the jobs have more than {MAX_ANSWER_BYTES} bytes; list fewer")
        converted.append(job)
    return converted


def _failure(uid: str, message: str) -> Answer:
    return Answer(
        status=200,
        body=REVIEW.envelope(uid, _failed(message)),
        outcome=Outcome.FAILED,
        uid=uid,
        message=message,
    )


def _failed(message: str) -> Mapping[str, Any]:
    return {"result": {"status": "Failed", "message": message}}


def _called(found: object) -> str:
    """Return namespace and name of an object, as far as it has them."""
    metadata = found.get("metadata") if isinstance(found, Mapping) else None
    fields = metadata if isinstance(metadata, Mapping) else {}
    words = [fields.get("namespace"), fields.get("name")]
    named = "/".join(word[:_LONGEST_NAME] for word in words if isinstance(word, str) and word)
    return named.encode("utf-8", "replace").decode() or "an object without a name"
