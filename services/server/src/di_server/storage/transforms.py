"""Transforms that keep only the fields that the server reads.

Most of a job is its templates, most of a pod its containers; with ten thousand jobs a server would
keep them all in memory for two names and a port. Each function returns a new object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from di_api.coordinated import named_port
from di_api.field_error import items, mapping
from di_api.names import (
    ANNOTATION_IDEMPOTENCY,
    ANNOTATION_RANK,
    DI_CONTAINER,
    DI_PORT_NAME,
    GPU_RESOURCE,
    LABEL_JOB,
    LABEL_TASK_NAME,
)
from di_api.pods.main_container import ENDED, phase_of
from di_api.spec import FailureAction
from di_api.stand_ins import FIELD as STAND_INS
from di_api.status.groups import FIELD as GROUPS
from di_server.model.pod import PROGRAM_ENDED
from di_server.storage.kube import Object

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "ownerReferences",
)
_OWNER: Final = ("apiVersion", "kind", "name", "uid", "controller")
_SHARED: Final = 4096
_TASK: Final = (
    *("name", "type", "replicas", "minReplicas", "maxReplicas"),
    *("podsPerReplica", "processGroup", "vacant", "standby"),
)
_ROLES: Final = ("coordinator", "collector", "learner")


def transform_job(job: Object) -> Object:
    """Return of a job: the sizes of its tasks and results of its requests, or its replicas and
    their ports.
    """
    metadata = job["metadata"]
    spec = job.get("spec") or {}
    kept: Object = _some(spec, ("suspend", "preemptible"))
    if spec.get("tasks"):
        kept["tasks"] = [_task(task) for task in spec["tasks"]]
    if rules := _rules_in_place(spec):
        kept["failurePolicy"] = {"rules": rules}
    coordinated = spec.get("coordinated")
    if isinstance(coordinated, Mapping):
        kept["coordinated"] = _some(coordinated, ("replicas",)) | {
            role: {"template": _template(coordinated[role])}
            for role in _ROLES
            if coordinated.get(role) is not None
        }
    annotations = metadata.get("annotations") or {}
    return {
        "metadata": {
            **_some(metadata, (*_METADATA, "generation")),
            # Of other annotations only the keys: adding the first annotation of all replaces the
            # whole map.
            "annotations": dict.fromkeys(annotations, "")
            | _some(annotations, (ANNOTATION_IDEMPOTENCY,)),
        },
        "spec": kept,
        "status": _some(job.get("status") or {}, ("phase", "admitted", GROUPS, STAND_INS)),
    }


def _task(task: Mapping[str, Any]) -> Object:
    # Only whether there is a tier matters.
    tier: Object = {} if task.get("elastic") is None else {"elastic": {}}
    return _some(task, _TASK) | tier


def transform_pod(pod: Object) -> Object:
    """Return of a pod: owner, task and address; with fifty thousand pods every field counts."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    kept = _some(metadata, ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp"))
    kept["ownerReferences"] = [
        _owner(*(owner.get(key) for key in _OWNER))
        for owner in metadata.get("ownerReferences") or ()
    ]
    for field, keys in (
        ("labels", (LABEL_JOB, LABEL_TASK_NAME)),
        ("annotations", (ANNOTATION_RANK,)),
    ):
        if field in metadata:
            kept[field] = _few(keys, tuple(map(metadata[field].get, keys)))
    return {
        "metadata": kept,
        "spec": _pod_spec(named_port(spec), spec.get("hostNetwork") is True),
        # With one address the list of addresses is redundant.
        "status": {
            **_some(
                status,
                ("phase", "podIP", *(["podIPs"] if len(status.get("podIPs") or ()) > 1 else [])),
            ),
            **({PROGRAM_ENDED: True} if phase_of(pod) in ENDED else {}),
        },
    }


def transform_config(config: Object) -> Object:
    """Return of an AggregatorConfig: the port of aggregators."""
    aggregator = (config.get("spec") or {}).get("aggregator") or {}
    return {
        "metadata": _some(config["metadata"], _METADATA),
        "spec": {"aggregator": {"template": _template(aggregator)}},
    }


def transform_node(node: Object) -> Object:
    """Return of a node: its GPUs."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return {
        "metadata": _some(node["metadata"], _METADATA),
        "status": {"allocatable": _some(allocatable, (GPU_RESOURCE,))},
    }


def _rules_in_place(spec: Mapping[str, Any]) -> list[Object]:
    """Return the rules of a failure policy that give tasks a process group."""
    rules = map(mapping, items(mapping(spec.get("failurePolicy")).get("rules")))
    in_place = FailureAction.RESTART_IN_PLACE.value
    return [_some(rule, ("tasks", "action")) for rule in rules if rule.get("action") == in_place]


def _template(owner: object) -> Object:
    # A template of a coordinated job can have any shape if the webhook was disabled.
    return {
        "spec": _pod_spec(named_port(mapping(mapping(owner).get("template")).get("spec")), False)
    }


# Equal parts of many objects are shared, and must not be modified.


@lru_cache(maxsize=_SHARED)
def _pod_spec(port: int | None, host_network: bool) -> Object:
    ports = [] if port is None else [{"name": DI_PORT_NAME, "containerPort": port}]
    return {
        "containers": [{"name": DI_CONTAINER, "ports": ports}],
        **({"hostNetwork": True} if host_network else {}),
    }


@lru_cache(maxsize=_SHARED)
def _owner(*values: object) -> Object:
    return dict(zip(_OWNER, values, strict=True))


@lru_cache(maxsize=_SHARED)
def _few(keys: tuple[str, ...], values: tuple[str | None, ...]) -> Object:
    pairs = zip(keys, values, strict=True)
    return {key: value for key, value in pairs if value is not None}


def _some(owner: Mapping[str, Any], keys: Iterable[str]) -> Object:
    return {key: owner[key] for key in keys if key in owner}
