"""AdmissionReviews as the API server writes them."""

from __future__ import annotations

import base64
import json
from typing import Any

from di_webhook.review import Answer

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def job(**spec: Any) -> dict[str, Any]:
    """A complete job, `spec` on top."""
    template = {"spec": {"containers": [{"name": "di-container", "image": "demo"}]}}
    task = {"type": "learner", "name": "learner", "replicas": 1, "template": template}
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "cartpole", "namespace": "default"},
        "spec": {
            "priority": "normal",
            "cleanPodPolicy": "Running",
            "preemptible": False,
            "backoffLimit": 3,
            "suspend": False,
            "tasks": [task],
            "successPolicy": {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 30},
            "failurePolicy": {"rules": []},
            **spec,
        },
    }


def review(obj: Any, *, old: Any = None, operation: Any = "CREATE", **request: Any) -> bytes:
    """A review of `obj`; `request` overrides fields of the request, None leaves one out."""
    fields = {
        "uid": UID,
        "kind": {"group": "diengine.opendilab.org", "version": "v2alpha1", "kind": "DIJob"},
        "resource": {
            "group": "diengine.opendilab.org",
            "version": "v2alpha1",
            "resource": "dijobs",
        },
        "name": "cartpole",
        "namespace": "default",
        "operation": operation,
        "userInfo": {"username": "admin"},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        **request,
    }
    request = {key: value for key, value in fields.items() if value is not None}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def patch_of(answer: Answer) -> list[dict[str, Any]]:
    """The operations of an answer that allows; empty without a patch."""
    response = answer.body["response"]
    assert response["allowed"]
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return found
