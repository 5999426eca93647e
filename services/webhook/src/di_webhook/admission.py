"""AdmissionReview in, answer out: pure, for any bytes whatever.

The wire format is admission.k8s.io/v1, https://kubernetes.io/docs/reference/access-authn-authz/
extensible-admission-controllers/. The API server converts jobs of the older versions before it
asks; the answers then speak of the fields their writers know.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from di_api import names
from di_api.annotations import annotation_patch
from di_api.changed_by import admitted_note
from di_api.companions import CompanionKind
from di_api.conversion import with_unseen
from di_api.defaults import defaults_patch, success_policy_patch, with_defaults
from di_api.difference import first_difference
from di_api.failure_defaults import failure_policy_patch
from di_api.field_error import FieldError, mapping
from di_api.queued import SUSPENSION_NOTE, waits_in_queue
from di_api.validation import foreign_kinds, validate_job, validate_update
from di_webhook.review import Answer, Kind, Malformed, Outcome, malformed
from di_webhook.wording import in_older_words, in_words

REVIEW: Final = Kind(api_version="admission.k8s.io/v1", kind="AdmissionReview")

# The API server cuts nothing: a job with ten thousand mistakes must not answer with megabytes.
MAX_ERRORS_SHOWN: Final = 50
_DECIDED_OPERATIONS: Final = frozenset({"CREATE", "UPDATE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The part of an AdmissionRequest that matters here, its types checked."""

    uid: str
    by_older_version: bool
    """Whether the client wrote one of the older versions."""
    operation: str
    group: str
    kind: str
    sub_resource: str
    namespace: str
    name: str
    user: str
    """Who makes the request; empty: it does not say."""
    object: Any
    old_object: Any

    @property
    def is_decided_here(self) -> bool:
        """Whether the rules say anything about this request.

        Deletes and status writes are never hindered, also when a configuration sends them here
        by mistake: a job that cannot be deleted or reported is worse than one unchecked.
        """
        return self.operation in _DECIDED_OPERATIONS and not self.sub_resource


def mutate(body: bytes, speakers: Collection[str] = ()) -> Answer:
    """Answer a mutating review: allow, with a JSON Patch of what is missing, if anything is:
    defaults, and who changes the spec. `speakers` are users who change it for others; without any
    nobody is named."""
    return _review(body, partial(_mutation, speakers=speakers))


def validate(body: bytes, companions: Sequence[CompanionKind] = ()) -> Answer:
    """Answer a validating review: allow, or deny with every error at once.

    `companions` are the kinds of objects that new jobs may bring along; old ones keep theirs.
    """
    return _review(body, partial(_validation, companions=companions))


def _review(body: bytes, decide: Callable[[_Request], Mapping[str, Any]]) -> Answer:
    try:
        request = _parse(body)
    except Malformed as error:
        message = str(error)
        denial = REVIEW.envelope(error.uid, _denied(400, "BadRequest", message))
        return malformed(error, denial if error.uid else None)
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
        body=REVIEW.envelope(request.uid, response),
        outcome=Outcome.ALLOWED if response["allowed"] else Outcome.DENIED,
        operation=request.operation,
        namespace=request.namespace,
        name=request.name,
        uid=request.uid,
        message=response.get("status", {}).get("message", ""),
    )


def _mutation(request: _Request, speakers: Collection[str]) -> Mapping[str, Any]:
    job, patch = request.object, []
    old = mapping(request.old_object)
    if request.by_older_version and old:
        job = with_unseen(request.object, old)
        patch = [
            {"op": "add", "path": f"/{field}", "value": job[field]}
            for field in ("spec", "status")
            if field in job and first_difference(request.object.get(field), job[field]) is not None
        ]
    patch += defaults_patch(job)
    before = None if request.operation == "CREATE" else old
    patch += success_policy_patch(job, before)
    patch += failure_policy_patch(job, before)
    notes: dict[str, str] = {}
    if request.operation == "CREATE" and waits_in_queue(job):
        patch.append({"op": "add", "path": "/spec/suspend", "value": True})
        notes |= SUSPENSION_NOTE
    if speakers:
        notes |= admitted_note(_filled(job), before, request.user, speakers)
    patch += annotation_patch(job, notes)
    if not patch:
        return {"allowed": True}
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def _filled(job: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = job.get("spec")
    return {**job, "spec": with_defaults(spec)} if isinstance(spec, dict) else job


def _validation(request: _Request, companions: Sequence[CompanionKind]) -> Mapping[str, Any]:
    if request.operation == "UPDATE":
        if not isinstance(request.old_object, dict):
            return _denied(400, "BadRequest", "request.oldObject must be an object")
        errors: Sequence[FieldError] = validate_update(request.old_object, request.object)
    else:
        errors = [*validate_job(request.object), *foreign_kinds(request.object, companions)]
    if not errors:
        return {"allowed": True}
    worded = in_older_words if request.by_older_version else in_words
    reasons = [worded(error) for error in errors[:MAX_ERRORS_SHOWN]]
    shown = [text for _, text in reasons]
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
                "field": path,
                "message": text.removeprefix(f"{path}: "),
            }
            for path, text in reasons
        ],
    }
    return _denied(422, "Invalid", "; ".join(shown), details)


def _parse(body: bytes) -> _Request:
    uid, request = REVIEW.request(body)
    kind = request.get("kind")
    if not isinstance(kind, dict):
        raise Malformed("request.kind must be an object", uid=uid)
    asked = request.get("requestKind")
    version = asked.get("version") if isinstance(asked, dict) else None
    return _Request(
        uid=uid,
        by_older_version=version in names.COORDINATED_VERSIONS,
        operation=_text(request, "operation", uid),
        group=_text(kind, "group", uid),
        kind=_text(kind, "kind", uid),
        sub_resource=_text(request, "subResource", uid),
        namespace=_text(request, "namespace", uid),
        name=_text(request, "name", uid),
        user=_text(mapping(request.get("userInfo")), "username", uid),
        object=request.get("object"),
        old_object=request.get("oldObject"),
    )


def _text(fields: Mapping[str, Any], key: str, uid: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise Malformed(f"{key} must be a string", uid=uid)
    return value


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
