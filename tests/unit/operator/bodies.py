"""Objects as the API server returns them."""

from __future__ import annotations

from typing import Any

from di_api.names import (
    API_VERSION,
    KIND,
    LABEL_JOB,
)

Object = dict[str, Any]


def pod(name: str = "a-work-0", job: str | None = "a") -> Object:
    labels = {} if job is None else {LABEL_JOB: job}
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels}}


def controlled(name: str, job: str, label: str | None) -> Object:
    body = pod(name, label)
    kind = {"apiVersion": API_VERSION, "kind": KIND, "controller": True}
    body["metadata"]["ownerReferences"] = [{**kind, "name": job, "uid": "j"}]
    return body
