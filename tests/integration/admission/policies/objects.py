"""Jobs, and objects that belong to them or do not, for which policies are tried."""

from __future__ import annotations

from typing import Any

from di_api.names import API_VERSION
from di_kube.resources import CONFIGMAPS, PODS, SERVICES, Resource
from di_operator.builders.metadata import job_labels, owner_reference

Object = dict[str, Any]

TEMPLATE = {"spec": {"containers": [{"name": "di-container", "image": "none"}]}}
ROLES = {role: {"template": TEMPLATE} for role in ("coordinator", "collector")}


def job(name: str, spec: Object) -> Object:
    # With what people and other controllers write into metadata.
    metadata = {"name": name, "labels": {"team": "rl"}, "annotations": {"note": "mine"}}
    return {"apiVersion": API_VERSION, "kind": "DIJob", "metadata": metadata, "spec": spec}


# Nameless, as the CRD takes it while the webhook is away.
WORKING = job(
    "working",
    {
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tasks": [
            {"type": "learner", "template": TEMPLATE},
            {"type": "none", "name": "buffer", "replicas": 2, "template": TEMPLATE},
        ],
    },
)
COORDINATED = job("coordinated", {"coordinated": ROLES})
FINISHED = job("finished", {"tasks": [{"type": "learner", "template": TEMPLATE}]})
EXPIRED = job("expired", {**FINISHED["spec"], "ttlSecondsAfterFinished": 0})


OBJECTS: dict[Resource, Object] = {
    PODS: TEMPLATE,
    SERVICES: {"spec": {"ports": [{"port": 80}]}},
    CONFIGMAPS: {"data": {"a": "b"}},
}
CLAIMS = Resource(
    group="", version="v1", plural="persistentvolumeclaims", kind="PersistentVolumeClaim"
)
# What jobs bring along is made, and not touched again.
MADE: dict[Resource, Object] = {
    **OBJECTS,
    CLAIMS: {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}


def owned_by(made: Object) -> Object:
    """Metadata of an object of a job."""
    return {"labels": job_labels(made), "ownerReferences": [owner_reference(made)]}


def named(name: str, metadata: Object) -> Object:
    return {"metadata": {"name": name, **metadata}}


OWNED = owned_by({"metadata": {"name": "working", "uid": "0f3c"}})
OTHER_OWNER = {**OWNED["ownerReferences"][0], "apiVersion": "v1", "kind": "ConfigMap"}
UNOWNED = "must have a DIJob as its controller"
NOT_OURS = "may change and delete only what a DIJob controls"
