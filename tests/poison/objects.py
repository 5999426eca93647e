"""Strategies: what anybody with rights in a namespace may have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from di_api.names import (
    ANNOTATION_CONVERSION,
    ANNOTATION_IDEMPOTENCY,
    ANNOTATION_RANK,
    ANNOTATION_TASK_REPLICAS,
    API_VERSION,
    GROUP,
    KIND,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)
from tests.poison.schema import JSON, QUANTITIES, TEXTS, TIMES, admitted

Object = dict[str, Any]
NAMESPACE: Final = "ns"
GOOD: Final = "good"
"""A job that runs, whose name the poisonous objects may bear in their labels."""
GOOD_UID: Final = "uid-good"

_ROOT: Final = Path(__file__).parents[2]
_CRD: Final = yaml.load(
    (_ROOT / "charts/di-orchestrator/files/dijobs-crd.yaml").read_text("utf-8"), yaml.CSafeLoader
)
_FIELDS: Final = {
    version["name"]: version["schema"]["openAPIV3Schema"]["properties"]
    for version in _CRD["spec"]["versions"]
}
VERSIONS: Final = tuple(_FIELDS)
POD_TEMPLATE: Final = json.loads(
    (resources.files("di_api") / "data/pod_template.json").read_text("utf-8")
)

_NAMES: Final = st.sampled_from([GOOD, "other", "a", "good-learner-0"]) | st.from_regex(
    "[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True
)
_UIDS: Final = st.sampled_from(["1", "2", "3"]) | st.uuids().map(str)
_SMALL: Final = st.integers(1, 3)
# Values that most rules let pass: a job that is refused at once shows little.
_SPECIAL: Final = {
    "name": st.sampled_from(["di-container", "di-port", "main", "b", "c"]) | TEXTS,
    "dependsOn": st.just([]),
    "preemptible": st.booleans(),
    "minReplicas": st.just(1),
    "maxReplicas": st.just(3),
    "podsPerReplica": st.integers(1, 2),
    "vacant": st.lists(st.integers(0, 3), max_size=2, unique=True),
}


@st.composite
def owners(draw: st.DrawFn) -> Object:
    """An owner reference as the API server takes it, of any owner."""
    owner: Object = {
        "apiVersion": draw(st.sampled_from([API_VERSION, f"{GROUP}/v9", "v1", "x/y"])),
        "kind": draw(st.sampled_from([KIND, "ConfigMap", "dijob"])),
        "name": draw(_NAMES),
        "uid": draw(_UIDS | st.just("$(UID)")),
    }
    for flag in ("controller", "blockOwnerDeletion"):
        if draw(st.booleans()):
            owner[flag] = draw(st.booleans())
    return owner


_LABELS: Final = st.fixed_dictionaries(
    {},
    optional={
        LABEL_JOB: _NAMES | st.just(""),
        LABEL_OPERATOR: st.sampled_from([OPERATOR_NAME, "", "x"]),
        LABEL_TASK_NAME: st.sampled_from(["learner", "collector", "", "x"]),
        "app": st.just("x"),
    },
)
_ANNOTATIONS: Final = st.fixed_dictionaries(
    {},
    optional={
        ANNOTATION_RANK: TEXTS,
        ANNOTATION_TASK_REPLICAS: TEXTS,
        ANNOTATION_IDEMPOTENCY: TEXTS | st.sampled_from(["[[]]", "{}", "[" * 900, "[[1,2,3,4]]"]),
        ANNOTATION_CONVERSION: TEXTS | JSON.map(json.dumps) | st.just('{"spec":{"tasks":5}}'),
    },
)


@st.composite
def metadata(draw: st.DrawFn, *, namespaced: bool = True) -> Object:
    """Metadata as the API server serves it: what it fills in itself is there and right."""
    result: Object = {
        "name": draw(_NAMES),
        "uid": draw(_UIDS),
        "resourceVersion": str(draw(st.integers(1, 10**6))),
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "generation": draw(_SMALL),
    }
    if namespaced:
        result["namespace"] = NAMESPACE
    optional = {
        "labels": _LABELS,
        "annotations": _ANNOTATIONS,
        "ownerReferences": st.lists(owners(), max_size=3),
        "deletionTimestamp": st.just("2030-01-01T00:00:00Z"),
        "managedFields": st.just([{}]),
    }
    for field, values in optional.items():
        if draw(st.booleans()):
            result[field] = draw(values)
    return result


def jobs(version: str = VERSIONS[0]) -> st.SearchStrategy[Object]:
    """Jobs that the definition takes in that version; its rules across fields are kept."""
    return st.builds(
        lambda head, spec, status: {
            "apiVersion": f"{GROUP}/{version}",
            "kind": KIND,
            "metadata": head,
            "spec": spec,
            **({} if status is None else {"status": status}),
        },
        metadata(),
        _specs(version),
        st.none() | admitted(_FIELDS[version]["status"], _SPECIAL),
    )


_SPECS: Final = {version: fields["spec"] for version, fields in _FIELDS.items()}
_NEWEST: Final = _SPECS[VERSIONS[0]]["properties"]
_WITHOUT_KIND: Final = {
    **_SPECS[VERSIONS[0]],
    "properties": {k: v for k, v in _NEWEST.items() if k not in ("tasks", "coordinated")},
}


@st.composite
def _specs(draw: st.DrawFn, version: str) -> Object:
    spec: Object
    if version != VERSIONS[0]:
        spec = draw(admitted(_SPECS[version], _SPECIAL))
        return spec
    spec = draw(admitted(_WITHOUT_KIND, _SPECIAL))
    if draw(st.booleans()):
        spec["coordinated"] = draw(admitted(_NEWEST["coordinated"], _SPECIAL))
        return {k: v for k, v in spec.items() if k not in ("preemptible", "scheduling")}
    kinds = st.sampled_from(["learner", "collector", "evaluator", "none"])
    spec["tasks"] = [
        draw(admitted(_NEWEST["tasks"]["items"], _SPECIAL))
        | {"type": kind, "name": "buffer" if kind == "none" else kind, "replicas": draw(_SMALL)}
        for kind in draw(st.lists(kinds, min_size=1, max_size=3, unique=True))
    ]
    return spec


_HOT: Final = st.sampled_from(
    [
        *("tasks", "coordinated", "preemptible", "scheduling", "suspend", "replicas", "volumes"),
        *("phase", "conditions", "failures", "placement", "profilings", "taskStatus"),
    ]
)


def _with_few_replicas(value: Any) -> Any:
    """The value with small numbers of replicas, as in `_SPECIAL`."""
    if isinstance(value, list):
        return [_with_few_replicas(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each % 4
        if key.lower().endswith("replicas") and isinstance(each, int)
        else _with_few_replicas(each)
        for key, each in value.items()
    }


@st.composite
def wild_jobs(draw: st.DrawFn) -> Object:
    """Jobs with a spec and a status of any shape: from before a rule, or past the definition."""
    job = draw(jobs())
    for field in ("spec", "status"):
        if draw(st.booleans()):
            value = draw(st.dictionaries(_HOT | TEXTS, JSON, max_size=4) | JSON)
            job[field] = _with_few_replicas(value)
    return job


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """Pods as the API server serves them, of any owner."""
    spec: Object = draw(admitted(POD_TEMPLATE["properties"]["spec"], _SPECIAL))
    if draw(st.booleans()):
        spec["nodeName"] = draw(st.sampled_from(["n1", "n2", ""]))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": draw(metadata()),
        "spec": spec,
        **({"status": draw(_POD_STATUS)} if draw(st.booleans()) else {}),
    }


_ENDED: Final = st.fixed_dictionaries(
    {"exitCode": st.integers(-(2**31), 2**31 - 1)},
    optional={"reason": TEXTS, "finishedAt": TIMES | st.none(), "message": TEXTS},
)
_CONTAINER_STATUS: Final = st.fixed_dictionaries(
    {"name": TEXTS, "ready": st.booleans()},
    optional={
        "state": st.just({}) | st.builds(lambda ended: {"terminated": ended}, _ENDED),
        "restartCount": _SMALL,
    },
)
_CONDITION: Final = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["Ready", "DisruptionTarget", "", "x"]),
        "status": st.sampled_from(["True", "False", "Unknown", ""]),
    },
    optional={"reason": TEXTS, "message": TEXTS, "lastTransitionTime": st.none() | TIMES},
)
_POD_STATUS: Final = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
        "reason": TEXTS | st.just("OutOfcpu"),
        "message": TEXTS,
        "podIP": st.sampled_from(["10.0.0.1", "fd00::1"]),
        "conditions": st.lists(_CONDITION, max_size=3),
        "containerStatuses": st.lists(_CONTAINER_STATUS, max_size=2),
        "initContainerStatuses": st.lists(_CONTAINER_STATUS, max_size=2),
    },
)


@st.composite
def nodes(draw: st.DrawFn) -> Object:
    """Nodes as the API server serves them."""
    taint = st.fixed_dictionaries(
        {"key": TEXTS, "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])},
        optional={"value": TEXTS, "timeAdded": TIMES},
    )
    amounts = st.dictionaries(
        st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]) | TEXTS,
        QUANTITIES,
        min_size=1,
        max_size=4,
    )
    spec = st.fixed_dictionaries(
        {}, optional={"taints": st.lists(taint, max_size=2), "unschedulable": st.booleans()}
    )
    status = st.fixed_dictionaries(
        {"allocatable": amounts}, optional={"conditions": st.lists(_CONDITION, max_size=2)}
    )
    head = draw(metadata(namespaced=False))
    return {"metadata": head, "spec": draw(spec), "status": draw(status)}


def of_core(kind: str) -> st.SearchStrategy[Object]:
    """Services and ConfigMaps, of any owner."""
    return st.builds(
        lambda head, data: {"apiVersion": "v1", "kind": kind, "metadata": head, **data},
        metadata(),
        st.fixed_dictionaries(
            {}, optional={"data": st.dictionaries(TEXTS, TEXTS, max_size=2), "spec": st.just({})}
        ),
    )


def belonging(found: Object, uid: str) -> Object:
    """The object, with the job of that UID as what some of its owner references name."""
    text = json.dumps(found).replace("$(UID)", uid)
    result: Object = json.loads(text)
    return result


def wild(found: st.SearchStrategy[Object]) -> st.SearchStrategy[Object]:
    """Objects of which everything but the metadata may be of any shape."""

    def changed(body: Object, fields: Mapping[str, Any]) -> Object:
        return body | dict(fields)

    return st.builds(
        changed,
        found,
        st.fixed_dictionaries({}, optional={"spec": JSON, "status": JSON, "data": JSON}),
    )
