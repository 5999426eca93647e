"""Responses to AdmissionReviews: pure functions that accept any bytes.

The wire format is admission.k8s.io/v1, https://kubernetes.io/docs/reference/access-authn-authz/
extensible-admission-controllers/. The API server converts jobs of older versions before the review;
the responses then use the field names of the client's version.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from di_api import names
from di_api.changed_by import foreign_note
from di_api.companions import CompanionKind
from di_api.field_error import FieldError, mapping
from di_api.sweeps import new_sweep_errors, validate_sweep
from di_api.validation import (
    Check,
    foreign_kinds,
    job_errors,
    job_template_errors,
    unbounded,
    update_errors,
    weigh,
)
from di_webhook.budget import MAX_SECONDS, Exhausted
from di_webhook.kept import kept_warnings
from di_webhook.mutations import Change, mutated
from di_webhook.overruled import overruled
from di_webhook.regrouped import regrouped
from di_webhook.review import Answer, Kind, Malformed, Outcome, TooLarge, malformed
from di_webhook.wording import in_older_words, in_words

REVIEW: Final = Kind(api_version="admission.k8s.io/v1", kind="AdmissionReview")

# The API server does not cut messages: a job with ten thousand errors must not get megabytes.
MAX_ERRORS_SHOWN: Final = 50
MAX_SHOWN_BYTES: Final = 32 * 1024
"""Size of errors in characters after which no further one is shown. A response has each twice."""
MAX_PATCH_BYTES: Final = 3 * 1024 * 1024
"""Maximum bytes of a patch in base64: it replaces the whole spec for a client of an older version,
and adds defaults otherwise.
"""
MAX_KEPT: Final = 16
"""Maximum number of warnings about fields that a change keeps."""
_TEMPLATES: Final = (names.JOB_TEMPLATE_KIND, names.CLUSTER_JOB_TEMPLATE_KIND)
_KINDS: Final = (names.KIND, names.SWEEP_KIND, *_TEMPLATES)
_DECIDED_OPERATIONS: Final = frozenset({"CREATE", "UPDATE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The used part of an AdmissionRequest, with checked types."""

    uid: str
    by_older_version: bool
    """Whether the client used one of the older versions."""
    operation: str
    group: str
    kind: str
    sub_resource: str
    namespace: str
    name: str
    user: str
    """User of the request; empty: unknown."""
    object: Any
    old_object: Any

    @property
    def is_decided_here(self) -> bool:
        """Return whether the rules apply to this request.

        Deletes and status writes are never refused, even if a configuration sends them here by
        mistake: a job that cannot be deleted or reported is worse than an unchecked one.
        """
        return self.operation in _DECIDED_OPERATIONS and not self.sub_resource


def mutate(body: bytes, speakers: Collection[str] = ()) -> Answer:
    """Answer a mutating review: allow, with a JSON Patch of missing defaults and the author of the
    change.

    `speakers` are users who make changes on behalf of others; without any, no author is recorded.
    """
    return _review(body, partial(_mutation, speakers=speakers))


def validate(
    body: bytes,
    companions: Sequence[CompanionKind] = (),
    speakers: Collection[str] = (),
    check: Check = unbounded,
) -> Answer:
    """Answer a validating review: allow, or deny with the first errors.

    Args:
        body: the review.
        companions: object kinds that new jobs can bring along; existing jobs keep theirs.
        speakers: as in `mutate`.
        check: called between pieces of work; raises Exhausted when the review took too long.
    """
    decide = partial(_validation, companions=companions, speakers=speakers, check=check)
    return _review(body, decide)


def _review(body: bytes, decide: Callable[[_Request], Mapping[str, Any]]) -> Answer:
    try:
        request = _parse(body)
    except Malformed as error:
        message = str(error)
        if isinstance(error, TooLarge) and error.uid:
            denial = _too_large(f"{message}; make the job smaller")
            return Answer(
                status=200,
                body=REVIEW.envelope(error.uid, denial),
                outcome=Outcome.DENIED,
                uid=error.uid,
                message=message,
            )
        denial = REVIEW.envelope(error.uid, _denied(400, "BadRequest", message))
        return malformed(error, denial if error.uid else None)
    if not request.is_decided_here:
        response: Mapping[str, Any] = {"allowed": True}
    elif request.group != names.GROUP or request.kind not in _KINDS:
        response = _denied(
            400,
            "BadRequest",
            f"this webhook decides about {names.KIND} and {names.SWEEP_KIND} of {names.GROUP}, "
            f"not about {request.kind[:80]!a} of {request.group[:80]!a}",
        )
    elif not isinstance(request.object, dict):
        response = _denied(400, "BadRequest", "request.object must be an object")
    else:
        try:
            response = decide(request)
        except Exhausted:
            response = _too_large(
                f"the {request.kind} took more than {MAX_SECONDS:g} s of processor time to judge; "
                "make it smaller"
            )
    return _answer(request, response)


def _answer(request: _Request, response: Mapping[str, Any]) -> Answer:
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
    if request.kind != names.KIND:
        return {"allowed": True}
    before = None if request.operation == "CREATE" else mapping(request.old_object)
    change = Change(
        job=request.object,
        before=before,
        by_older_version=request.by_older_version,
        user=request.user,
        speakers=speakers,
    )
    spec, was = request.object.get("spec"), mapping(mapping(before).get("spec"))
    if not isinstance(spec, Mapping) or (weigh(spec).is_too_much and not weigh(was).is_too_much):
        # Validation refuses it. A patch of something that is not an object would fail with a 500.
        return {"allowed": True}
    patch = mutated(change)
    warnings = [] if before is None else [*islice(kept_warnings(request.object, before), MAX_KEPT)]
    told = {"warnings": warnings} if warnings else {}
    if not patch:
        return {"allowed": True, **told}
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    if len(encoded) > MAX_PATCH_BYTES:
        return _too_large(
            f"the patch of the job would have {len(encoded)} bytes, more than {MAX_PATCH_BYTES}; "
            "make the job smaller"
        )
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **told}


def _validation(
    request: _Request,
    companions: Sequence[CompanionKind],
    speakers: Collection[str],
    check: Check,
) -> Mapping[str, Any]:
    if request.kind in _TEMPLATES:
        return _decided(request, job_template_errors(request.object, check), None, check)
    old = None
    if request.operation == "UPDATE":
        old = request.old_object
        if not isinstance(old, dict):
            return _denied(400, "BadRequest", "request.oldObject must be an object")
    if request.kind == names.SWEEP_KIND:
        return _of_sweep(request, old, check)
    if old is not None:
        errors = update_errors(old, request.object, check)
    else:
        errors = chain(job_errors(request.object, check), foreign_kinds(request.object, companions))
    if speakers and (foreign := foreign_note(request.object, old, request.user, speakers)):
        errors = chain((foreign,), errors)
    return _decided(request, errors, old, check)


def _decided(
    request: _Request, errors: Iterable[FieldError], old: Mapping[str, Any] | None, check: Check
) -> Mapping[str, Any]:
    """Return the response for the errors that were found; without any the request is allowed."""
    worded = in_older_words if request.by_older_version else in_words
    reasons: list[tuple[str, str]] = []
    size, is_cut = 0, False
    for error in errors:
        check()
        # Errors that are not shown are not computed.
        if len(reasons) == MAX_ERRORS_SHOWN or size > MAX_SHOWN_BYTES:
            is_cut = True
            break
        reasons.append(worded(error, request.object))
        size += sum(map(len, reasons[-1]))
    if not reasons and request.kind in _TEMPLATES:
        return {"allowed": True}
    if not reasons:
        warnings = [*overruled(request.object, old), *regrouped(request.object, old)]
        return {"allowed": True, **({"warnings": warnings} if warnings else {})}
    return _invalid(request, reasons, is_cut=is_cut)


def _of_sweep(request: _Request, old: Mapping[str, Any] | None, check: Check) -> Mapping[str, Any]:
    """Return the response for a DISweep: a changed one can keep the errors that it had."""
    if old is None:
        errors = validate_sweep(request.object, check)
    else:
        errors = new_sweep_errors(old, request.object, check)
    reasons = [(error.path, str(error)) for error in errors]
    return _invalid(request, reasons) if reasons else {"allowed": True}


def _invalid(
    request: _Request, reasons: Sequence[tuple[str, str]], *, is_cut: bool = False
) -> Mapping[str, Any]:
    """Return the denial with the path and the text of each error."""
    shown = [text for _, text in reasons] + (["and more"] if is_cut else [])
    # kubectl prints `causes` one per line under "The DIJob ... is invalid"; other clients, and
    # events of controllers, show `message`.
    details = {
        "group": names.GROUP,
        "kind": request.kind,
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


def _too_large(message: str) -> Mapping[str, Any]:
    return _denied(413, "RequestEntityTooLarge", message)


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
