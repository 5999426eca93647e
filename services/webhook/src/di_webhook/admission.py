"""AdmissionReview in, answer out: pure, for any bytes whatever.

The wire format is admission.k8s.io/v1, https://kubernetes.io/docs/reference/access-authn-authz/
extensible-admission-controllers/. An envelope that cannot be understood is HTTP 400; a
well-formed one always gets HTTP 200 and a decision in it. Neither ever raises.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from di_api import names
from di_api.defaults import defaults_patch
from di_api.field_error import FieldError
from di_api.validation import validate_job, validate_update
from di_webhook import strict_json

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

# The API server cuts nothing: a job with ten thousand mistakes must not answer with megabytes.
MAX_ERRORS_SHOWN: Final = 50
# A UID is 36 characters; more is nobody's UID and would be echoed.
MAX_UID: Final = 256

_DECIDED_OPERATIONS: Final = frozenset({"CREATE", "UPDATE"})


class Outcome(StrEnum):
    """What became of a review; the label of the metric."""

    ALLOWED = "allowed"
    DENIED = "denied"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer, and what the log says about it."""

    status: int
    body: Mapping[str, Any]
    outcome: Outcome
    operation: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The part of an AdmissionRequest that matters here, its types checked."""

    uid: str
    operation: str
    group: str
    kind: str
    sub_resource: str
    namespace: str
    name: str
    object: Any
    old_object: Any

    @property
    def is_decided_here(self) -> bool:
        """Whether the rules say anything about this request.

        Deletes and status writes are never hindered, also when a configuration sends them here
        by mistake: a job that cannot be deleted or reported is worse than one unchecked.
        """
        return self.operation in _DECIDED_OPERATIONS and not self.sub_resource


class _Malformed(ValueError):
    """An envelope that is not an AdmissionReview; carries the uid where one was readable."""

    def __init__(self, message: str, *, uid: str = "") -> None:
        self.uid = uid
        super().__init__(message)


def mutate(body: bytes) -> Answer:
    """Answer a mutating review: allow, with a JSON Patch of the missing defaults if any."""
    return _review(body, _mutation)


def validate(body: bytes) -> Answer:
    """Answer a validating review: allow, or deny with every error at once."""
    return _review(body, _validation)


def too_large(limit: int) -> Answer:
    """Answer a body of more than `limit` bytes."""
    message = f"the body is larger than {limit} bytes"
    return Answer(status=413, body={"message": message}, outcome=Outcome.MALFORMED, message=message)


def _review(body: bytes, decide: Callable[[_Request], Mapping[str, Any]]) -> Answer:
    try:
        request = _parse(body)
    except _Malformed as error:
        return _malformed(str(error), error.uid)
    if not request.is_decided_here:
        response: Mapping[str, Any] = {"allowed": True}
    elif (request.group, request.kind) != (names.GROUP, names.KIND):
        response = _denied(
            400,
            "BadRequest",
            f"this webhook decides about {names.KIND} of {names.GROUP}, "
            f"not about {request.kind[:80]!a} of {request.group[:80]!a}",
        )
    elif not isinstance(request.object, dict):
        response = _denied(400, "BadRequest", "request.object must be an object")
    else:
        response = decide(request)
    return Answer(
        status=200,
        body=_envelope(request.uid, response),
        outcome=Outcome.ALLOWED if response["allowed"] else Outcome.DENIED,
        operation=request.operation,
        namespace=request.namespace,
        name=request.name,
        uid=request.uid,
        message=response.get("status", {}).get("message", ""),
    )


def _mutation(request: _Request) -> Mapping[str, Any]:
    patch = defaults_patch(request.object)
    if not patch:
        return {"allowed": True}
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def _validation(request: _Request) -> Mapping[str, Any]:
    if request.operation == "UPDATE":
        if not isinstance(request.old_object, dict):
            return _denied(400, "BadRequest", "request.oldObject must be an object")
        errors: Sequence[FieldError] = validate_update(request.old_object, request.object)
    else:
        errors = validate_job(request.object)
    if not errors:
        return {"allowed": True}
    shown = [str(error) for error in errors[:MAX_ERRORS_SHOWN]]
    if hidden := len(errors) - len(shown):
        shown.append(f"and {hidden} more")
    # kubectl prints `causes` one a line under "The DIJob ... is invalid"; other clients, and
    # events of controllers, show `message`.
    details = {
        "group": names.GROUP,
        "kind": names.KIND,
        "name": request.name,
        "causes": [
            {
                "reason": "FieldValueInvalid",
                "field": error.path,
                "message": str(error).removeprefix(f"{error.path}: "),
            }
            for error in errors[:MAX_ERRORS_SHOWN]
        ],
    }
    return _denied(422, "Invalid", "; ".join(shown), details)


def _parse(body: bytes) -> _Request:
    try:
        review = strict_json.loads(body)
    except strict_json.MalformedJson as error:
        raise _Malformed(f"the body is refused: {error}") from error
    if not isinstance(review, dict):
        raise _Malformed("the body is not an object")
    request = review.get("request")
    if not isinstance(request, dict):
        raise _Malformed("request must be an object")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID:
        raise _Malformed(f"request.uid must be a string of 1 to {MAX_UID} characters")
    if (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise _Malformed(f"the body must be a {KIND} of {API_VERSION}", uid=uid)
    kind = request.get("kind")
    if not isinstance(kind, dict):
        raise _Malformed("request.kind must be an object", uid=uid)
    return _Request(
        uid=uid,
        operation=_text(request, "operation", uid),
        group=_text(kind, "group", uid),
        kind=_text(kind, "kind", uid),
        sub_resource=_text(request, "subResource", uid),
        namespace=_text(request, "namespace", uid),
        name=_text(request, "name", uid),
        object=request.get("object"),
        old_object=request.get("oldObject"),
    )


def _text(fields: Mapping[str, Any], key: str, uid: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise _Malformed(f"{key} must be a string", uid=uid)
    return value


def _malformed(message: str, uid: str) -> Answer:
    body: Mapping[str, Any] = {"message": message}
    if uid:
        body = _envelope(uid, _denied(400, "BadRequest", message))
    return Answer(status=400, body=body, outcome=Outcome.MALFORMED, uid=uid, message=message)


def _denied(
    code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    status: dict[str, Any] = {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    if details is not None:
        status["details"] = details
    return {"allowed": False, "status": status}


def _envelope(uid: str, response: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, **response}}
