"""Admission of DIJobs by the webhook's own functions."""

from __future__ import annotations

import base64
import json
from typing import Any

from di_kube.resources import DIJOBS
from di_local.api.patches import patched
from di_local.api.refused import Refused
from di_webhook import admission

Object = dict[str, Any]


def admit(job: Object, before: Object | None) -> Object:
    """Return a job with defaults.

    Raises:
        Refused: the webhook refuses the job; has the webhook's message.
    """
    answer = admission.mutate(_review(job, before)).body["response"]
    if "patch" in answer:
        job = patched(job, json.loads(base64.b64decode(answer["patch"])))
    answer = admission.validate(_review(job, before)).body["response"]
    if not answer["allowed"]:
        status = answer["status"]
        raise Refused(
            status["code"], status["reason"], status["message"], status.get("details") or {}
        )
    return job


def _review(job: Object, before: Object | None) -> bytes:
    kind = {"group": DIJOBS.group, "version": DIJOBS.version, "kind": DIJOBS.kind}
    request = {
        "uid": job["metadata"]["uid"],
        "kind": kind,
        "requestKind": kind,
        "operation": "CREATE" if before is None else "UPDATE",
        "namespace": job["metadata"]["namespace"],
        "name": job["metadata"]["name"],
        "object": job,
        "oldObject": before,
    }
    review = admission.REVIEW
    return json.dumps(
        {"apiVersion": review.api_version, "kind": review.kind, "request": request}
    ).encode()
