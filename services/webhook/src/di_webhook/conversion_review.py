"""Responses to ConversionReviews: pure functions that accept any bytes.

The wire format is apiextensions.k8s.io/v1, https://kubernetes.io/docs/tasks/extend-kubernetes/
custom-resources/custom-resource-definition-versioning/#webhook-request-and-response. Either every
object is converted, or the review fails as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.conversion.versions import ConversionFailed, convert
from di_api.difference import written
from di_api.validation import Check, unbounded
from di_webhook.budget import MAX_SECONDS, Exhausted
from di_webhook.review import Answer, Kind, Malformed, Outcome, malformed

REVIEW: Final = Kind(api_version="apiextensions.k8s.io/v1", kind="ConversionReview")
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of all converted jobs in Python's marshal format, which is a little more than their
JSON.
"""
_TOOK_LONG: Final = f"the jobs took more than {MAX_SECONDS:g} s of processor time; list fewer"
_LONGEST_NAME: Final = 253


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
    converted: list[Mapping[str, Any]] = []
    size = 0
    for found in objects:
        try:
            check()
            job = convert(found, version)
        except (ConversionFailed, Exhausted) as error:
            is_over = isinstance(error, Exhausted)
            return _failure(uid, _TOOK_LONG if is_over else f"{_called(found)}: {error}")
        # An annotation can expand to a thousand times its own size.
        size += len(written(job) or b"")
        if size > MAX_ANSWER_BYTES:
            return _failure(uid, f"the jobs have more than {MAX_ANSWER_BYTES} bytes; list fewer")
        converted.append(job)
    response = {"convertedObjects": converted, "result": {"status": "Success"}}
    return Answer(
        status=200,
        body=REVIEW.envelope(uid, response),
        outcome=Outcome.CONVERTED,
        operation=version,
        uid=uid,
    )


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
