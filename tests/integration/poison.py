"""Objects that nobody should have been able to store, twenty kinds of them.

Jobs come from before a rule, from a definition that somebody loosened, or past a webhook that was
off; everything else is what anybody with rights in a namespace may write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from di_api.kube.resources import CONFIGMAPS, NODES, PODS, SERVICES, Resource
from di_api.names import (
    ANNOTATION_IDEMPOTENCY,
    ANNOTATION_RANK,
    API_VERSION,
    DI_CONTAINER,
    DI_PORT_NAME,
    KIND,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)

Object = dict[str, Any]

_LOOSE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def loosened(definition: Mapping[str, Any]) -> Object:
    """The definition without any say about specs and status."""
    result = deepcopy(dict(definition))
    for version in result["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        properties |= {"spec": _LOOSE, "status": _LOOSE}
        version["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations", None)
    return result


def _container(**fields: Any) -> Object:
    return {"name": DI_CONTAINER, "image": "none", **fields}


def _requests(**amounts: Any) -> Object:
    return {"containers": [_container(resources={"requests": amounts})]}


def _preemptible(spec: object, **fields: Any) -> Object:
    task = {"name": "learner", "type": "learner", "replicas": 1, "template": {"spec": spec}}
    return {"spec": {"preemptible": True, "tasks": [task | fields]}}


def _gang(spec: object, **fields: Any) -> Object:
    body = _preemptible(spec, **fields)
    return {"spec": body["spec"] | {"preemptible": False, "scheduling": {"gang": True}}}


def _coordinated(spec: object, **fields: Any) -> Object:
    good = {"template": {"spec": {"containers": [_container()]}}}
    return {
        "spec": {
            "coordinated": {"coordinator": good, "collector": {"template": {"spec": spec}}} | fields
        }
    }


_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"values": [1]}]}, "x"]}
_AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _TERMS}}
_REPORT = {
    "task": {"learner": {"samples": "NaN", "time": {"a": []}}},
    "observations": [[], {}, 1e308],
}

JOBS: Mapping[str, Callable[[], Object]] = {
    "no-quantity": lambda: _preemptible(_requests(memory="10GB")),
    "empty-quantity": lambda: _gang(_requests(memory="")),
    "huge-quantity": lambda: _preemptible(_requests(memory="9223372036854775808")),
    "endless-quantity": lambda: _gang(_requests(cpu="1e400")),
    "a-list-of-requests": lambda: _preemptible(
        {"containers": [_container(resources={"requests": ["cpu"]})]}
    ),
    "no-containers": lambda: _preemptible({"containers": "x"}),
    "a-container-of-nothing": lambda: _gang({"containers": [None, 1]}),
    "selectors-and-tolerations": lambda: _preemptible(
        {**_requests(cpu=1), "nodeSelector": ["x"], "tolerations": ["x", None]}
    ),
    "affinity": lambda: _preemptible({**_requests(cpu=1), "affinity": _AFFINITY}),
    "ports-of-text": lambda: _coordinated({"containers": [_container(ports=["x"])]}),
    "a-port-of-text": lambda: _coordinated(
        {"containers": [_container(ports=[{"name": DI_PORT_NAME, "containerPort": "x"}])]}
    ),
    "replicas-of-nothing": lambda: _coordinated(
        {"containers": [_container()]}, replicas=[{"name": "x"}, None]
    ),
    "no-spec": lambda: {"spec": {}},
    "unknown-fields": lambda: _preemptible(_requests(cpu=1), comesLater=True),
    "a-report": lambda: _preemptible(_requests(cpu=1)) | {"status": {"profilings": _REPORT}},
    "a-status": lambda: (
        _preemptible(_requests(cpu=1))
        | {
            "status": {
                "phase": ["Running"],
                "conditions": "True",
                "failures": [{"uid": 1}],
                "placement": {"learner": "n1"},
                "replicaSeconds": -1,
                "taskStatus": {"learner": 1},
            }
        }
    ),
}
"""Specs and status of jobs, by what is wrong with them."""


STARTED: Mapping[str, Any] = {"phase": "Pending", "restarts": 1}


def poisonous_jobs(number: int) -> Iterator[Object]:
    """Jobs of every kind in turn, `status` included."""
    makers = list(JOBS.items())
    for index in range(number):
        kind, make = makers[index % len(makers)]
        metadata: Object = {"name": f"bad-{kind}-{index // len(makers)}"}
        if index % 3 == 0:
            metadata["annotations"] = {ANNOTATION_IDEMPOTENCY: "{", "x": "y"}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, **make()}
        if index // len(makers) % 2:
            # One that has been started is not judged any more, and so gets further.
            body.setdefault("status", dict(STARTED))
        yield body


def _reference(kind: str, **fields: Any) -> Object:
    api_version = API_VERSION if kind == KIND else "v1"
    return {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "x", **fields}


def strangers(job: str, number: int, node: str) -> Iterator[tuple[Resource, Object]]:
    """Objects of nobody that claim to be of a running job, and nodes with odd conditions."""
    labels = {LABEL_OPERATOR: OPERATOR_NAME, LABEL_JOB: job}
    spec = {**_requests(cpu="1m"), "nodeName": node}
    two = [_reference(KIND, uid="1"), _reference("ConfigMap", uid="2", controller=True)]
    kinds: list[tuple[Resource, Object, Object]] = [
        (PODS, {"labels": labels}, {"spec": spec}),
        (PODS, {"labels": labels, "ownerReferences": two}, {"spec": spec}),
        (
            PODS,
            {
                "labels": labels | {LABEL_TASK_NAME: "x" * 63},
                "annotations": {ANNOTATION_RANK: "9" * 400},
                "ownerReferences": [_reference(KIND, controller=True)],
            },
            {"spec": spec},
        ),
        (SERVICES, {"labels": labels}, {"spec": {"clusterIP": "None"}}),
        (CONFIGMAPS, {"labels": labels}, {"data": {"nodes": "x"}}),
        (
            NODES,
            {"labels": {"odd": ""}},
            {"status": {"conditions": [{"type": "", "status": ""}], "allocatable": {"cpu": "1n"}}},
        ),
    ]
    for index in range(number):
        resource, metadata, body = kinds[index % len(kinds)]
        name = f"{job}-stranger-{index}"
        yield resource, {"metadata": {"name": name, **metadata}, **deepcopy(body)}
