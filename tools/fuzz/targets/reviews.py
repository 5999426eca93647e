"""Reviews of the API server: every one gets an answer that is JSON and says one thing."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from di_api import names, strict_json
from di_api.conversion.annotation import unpack
from di_api.conversion.versions import VERSIONS, ConversionFailed, convert, fields_of_older_versions
from di_api.phase import Phase
from di_webhook import admission as admissions
from di_webhook import conversion_review
from di_webhook.review import Answer

LONGEST_REASON: Final = 64 * 1024
"""Bytes of a refusal, in any of its forms; the API server hands it to the client."""
_OLDER_FIELDS: Final = fields_of_older_versions()
_NEWER_PHASES: Final = frozenset(Phase) - {Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED}


def admission(body: bytes) -> None:
    """Both webhooks answer; what the first one sets is all that it would ever set."""
    asked = _request(body)
    response = _answer(admissions.mutate, body, asked)
    _answer(admissions.validate, body, asked)
    if asked is None or response.get("patch") is None:
        return
    job = _patched(asked["object"], response)
    again = json.dumps({**json.loads(body), "request": {**asked, "object": job}}).encode()
    then = _patched(job, _answer(admissions.mutate, again, asked))
    assert _without_nulls(then) == _without_nulls(job)


def conversion(body: bytes) -> None:
    """A review is answered, and each job in it goes to the other versions and back unchanged."""
    asked = _request(body)
    _check(conversion_review.answer(body), asked)
    jobs = (asked or {}).get("objects")
    for job in jobs if isinstance(jobs, list) else ():
        for version in VERSIONS:
            _there_and_back(job, version)


def _there_and_back(job: Any, version: str) -> None:
    try:
        there = convert(job, version)
    except ConversionFailed:
        return
    _dumps(there)
    assert there["apiVersion"] == version
    try:
        back = convert(there, job["apiVersion"])
    except ConversionFailed as error:
        # Only the size of what is carried may stand in the way.
        assert "bytes in an annotation" in str(error), error  # noqa: PT017
        return
    if job["apiVersion"] != names.API_VERSION and (_carries(job) or _has_newer_phase(job)):
        # What somebody wrote in the words of the newest version is shown as that is.
        assert _dumps(_as_stored(convert(back, version))) == _dumps(_as_stored(there))
    else:
        assert _dumps(_as_stored(back)) == _dumps(_as_stored(job))


def _as_stored(job: Mapping[str, Any]) -> dict[str, Any]:
    """The job as the API server has it: with metadata, and without fields its version has not."""
    stored = {**job, "metadata": job.get("metadata") or {}}
    metadata = stored["metadata"]
    annotations = (metadata.get("annotations") or {}) if isinstance(metadata, dict) else None
    if isinstance(annotations, dict):
        kept = {key: text for key, text in annotations.items() if text is not None}
        rest = {key: metadata[key] for key in metadata if key != "annotations"}
        stored["metadata"] = rest | ({"annotations": kept} if kept else {})
    for field, known in _OLDER_FIELDS.items() if job["apiVersion"] != names.API_VERSION else ():
        if isinstance(found := job.get(field), dict):
            stored[field] = {key: found[key] for key in found if key in known}
    return stored


def _has_newer_phase(job: Mapping[str, Any]) -> bool:
    status = job.get("status")
    phase = status.get("phase") if isinstance(status, dict) else None
    return isinstance(phase, str) and phase in _NEWER_PHASES


def _carries(job: Mapping[str, Any]) -> bool:
    found: Any = job
    for key in ("metadata", "annotations", names.ANNOTATION_CONVERSION):
        found = found.get(key) if isinstance(found, dict) else None
    return unpack(found) is not None


def _patched(job: dict[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """The job after the patch of a response, which only adds fields to objects."""
    result = deepcopy(job)
    for operation in json.loads(base64.b64decode(response.get("patch", "W10="))):
        assert operation["op"] == "add"
        *above, field = operation["path"].removeprefix("/").split("/")
        target: Any = result
        for key in above:
            target = target[int(key)] if isinstance(target, list) else target[key]
        target[field] = operation["value"]
    return result


def _without_nulls(value: Any) -> Any:
    """A field that is null is one that is missing, for the API server as well."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(each) for key, each in value.items() if each is not None}


def _request(body: bytes) -> dict[str, Any] | None:
    """The request of a body that is a review, as far as that can be told from outside."""
    try:
        review = strict_json.loads(body)
    except strict_json.MalformedJson:
        return None
    found = review.get("request") if isinstance(review, dict) else None
    return found if isinstance(found, dict) else None


def _answer(
    decide: Callable[[bytes], Answer], body: bytes, asked: dict[str, Any] | None
) -> Mapping[str, Any]:
    answer = decide(body)
    _check(answer, asked)
    response: Mapping[str, Any] = answer.body.get("response", {})
    if answer.status == 200:
        assert isinstance(response["allowed"], bool)
        assert response["allowed"] or response["status"]["message"], "refused without a reason"
    return response


def _check(answer: Answer, asked: Mapping[str, Any] | None) -> None:
    assert answer.status in (200, 400)
    text = _dumps(answer.body)
    if answer.status == 400:
        assert answer.message
        assert len(text) <= LONGEST_REASON
    else:
        assert asked is not None
        assert answer.body["response"]["uid"] == asked["uid"]
    if answer.message:
        assert len(_dumps(answer.message)) <= LONGEST_REASON


def _dumps(value: object) -> str:
    """As the API server would read it: NaN is no JSON."""
    return json.dumps(value, sort_keys=True, allow_nan=False)
