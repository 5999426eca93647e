"""Well-formed reviews that cost as much to judge as their bytes allow.

Each repeats one small thing in one place of a job until the body has its size. Nothing but Python's
standard library is needed: a pod runs this too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Final

Object = dict[str, Any]
Fill = Callable[[int], Object]
"""From bytes to a job that has about as many."""

LARGEST: Final = 2 * 1536 * 1024 + 240 * 1024
"""Bytes of a body, a little less than the webhook takes."""
_GROUP: Final = "diengine.opendilab.org"
_TASKS: Final = 64


def _pods(**spec: Any) -> Object:
    return {"spec": {"containers": [{"name": "di-container", "image": "demo"}], **spec}}


def _task(index: int = 0, **fields: Any) -> Object:
    return {"type": "none", "name": f"t{index}", "replicas": 1, "template": _pods(), **fields}


def _job(**spec: Any) -> Object:
    return {
        "apiVersion": f"{_GROUP}/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "heavy", "namespace": "default"},
        "spec": {"tasks": [_task()], **spec},
    }


def _in_pods(**spec: Any) -> Object:
    return _job(tasks=[_task(template=_pods(**spec))])


def _items(size: int, item: Any) -> list[Any]:
    return [item] * (size // (len(json.dumps(item)) + 2))


def _names(size: int, name: str, value: Any = 0) -> Object:
    """As many fields of different names."""
    each = len(json.dumps({f"{name}00000": value}))
    return {f"{name}{index:05x}": value for index in range(size // each)}


def _of_tasks(size: int, fields: Callable[[int], Object]) -> Object:
    return _job(tasks=[_task(index, **fields(size // _TASKS)) for index in range(_TASKS)])


def _terms(size: int) -> Object:
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
    required = {"nodeSelectorTerms": _items(size, term)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return _in_pods(affinity=affinity)


def _resources(size: int) -> Object:
    limits, requests = _names(size // 2, "r", "1"), _names(size // 2, "r", "2")
    resources = {"limits": limits, "requests": requests}
    return _in_pods(containers=[{"name": "a", "resources": resources}])


def _patched(size: int) -> Object:
    volumes = [{"name": f"v{index:05x}"} for index in range(size // _TASKS // 20)]
    fields = {
        "podsPerReplica": 2,
        "template": _pods(volumes=volumes),
        "leaderTemplatePatch": {"spec": {"volumes": [{"name": "v0", "x": 1}]}},
    }
    return _job(tasks=[_task(index, **fields) for index in range(_TASKS)])


def _replicas(size: int) -> Object:
    replicas = [{"name": f"a{index:05x}", "x": 1} for index in range(size // 28)]
    spec = {"coordinated": {"coordinator": {"template": _pods()}, "replicas": replicas}}
    return {**_job(), "spec": spec}


def _managed(entries: list[Any]) -> Object:
    job = _job()
    job["metadata"]["managedFields"] = entries
    return job


def _companions(size: int) -> Object:
    labels = _names(size // 16, "l", 1)
    metadata = {"name": "$(JOB)-a", "labels": labels}
    return _job(companions=[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}] * 16)


FILLS: Final = MappingProxyType[str, Fill](
    {
        "unknown fields of the spec": lambda size: _job(**_names(size, "backoffLimiu")),
        "unknown fields like several": lambda size: _job(**_names(size, "successsPolicyTasksss")),
        "unknown fields of tasks": lambda size: _of_tasks(size, lambda n: _names(n, "replicaz")),
        "unknown fields of templates": lambda size: _of_tasks(
            size, lambda n: {"template": _pods(**_names(n, "terminationGracePeriodSecondz"))}
        ),
        "unknown fields of containers": lambda size: _in_pods(containers=_items(size, {"nama": 1})),
        "empty tasks": lambda size: _job(tasks=_items(size, {})),
        "tasks of a type": lambda size: _job(tasks=_items(size, {"type": "collector"})),
        "numbers for tasks": lambda size: _job(tasks=_items(size, 1.5)),
        "dependencies": lambda size: _of_tasks(
            size, lambda n: {"dependsOn": [f"x{index}" for index in range(n // 9)]}
        ),
        "rules": lambda size: _job(failurePolicy={"rules": _items(size, {"action": "Nope"})}),
        "variables": lambda size: _in_pods(
            containers=[{"name": "a", "env": _items(size, {"name": "a", "value": "x"})}]
        ),
        "arguments": lambda size: _in_pods(containers=[{"name": "a", "args": _items(size, "")}]),
        "numbers for texts": lambda size: _in_pods(
            containers=[{"name": "a", "args": _items(size, 0)}]
        ),
        "containers": lambda size: _in_pods(containers=_items(size, {"name": "a"})),
        "containers with limits": lambda size: _in_pods(
            containers=_items(size, {"name": "a", "resources": {"limits": {"memory": "1"}}})
        ),
        "ports": lambda size: _of_tasks(
            size, lambda n: {"ports": _items(n, {"name": "a"}), "service": {"ports": [{}]}}
        ),
        "volumes": lambda size: _job(volumes=_items(size, {"name": "a"})),
        "volumes of a template": lambda size: _in_pods(volumes=_items(size, {"name": "a"})),
        "mounts": lambda size: _in_pods(
            containers=[
                {"name": "a", "volumeMounts": _items(size, {"name": "m", "mountPath": "/x"})}
            ]
        ),
        "labels": lambda size: _of_tasks(
            size,
            lambda n: {
                "template": {"metadata": {"labels": _names(n, "diengine/", "x")}, **_pods()}
            },
        ),
        "terms": _terms,
        "resources": _resources,
        "patched templates": _patched,
        "replicas of a coordinator": _replicas,
        "companions": _companions,
        "escapes": lambda size: _in_pods(
            containers=[{"name": "a", "args": ["\x01" * (size // 6)]}]
        ),
        "managed fields": lambda size: _managed(_items(size, {})),
        "owned tasks": lambda size: _managed(
            _items(size, {"operation": "Apply", "fieldsV1": {"f:spec": {"f:tasks": {}}}})
        ),
        "one list": lambda size: {**_job(), "x": _items(size, {})},
        "a list in a list": lambda size: _job(x=json.loads("[" * 80 + "]" * 80)),
    }
)


def worst_reviews(size: int = LARGEST) -> Iterator[tuple[str, bytes]]:
    """A name and a body for each of FILLS: a new job, changes of one, and a small job's change."""
    small = _of_tasks(0, lambda _: {})
    for name, fill in FILLS.items():
        yield f"a job with {name}", review(fill(size))
        job = fill(size // 2)
        for change, changed in changes(job):
            yield f"{change} a job with {name}", review(changed, old=job)
        yield f"a change to a job with {name}", review(job, old=small)


def worst_conversions(size: int = LARGEST) -> Iterator[tuple[str, bytes]]:
    """A name and a body for lists of as many small jobs as fit, to and from an older version."""
    small = _job(tasks=[{"type": "learner", "template": _pods()}])
    none: Object = {"apiVersion": f"{_GROUP}/v2alpha1", "kind": "DIJob"}
    coordinated = {**none, "spec": {"coordinated": {"coordinator": {}}}}
    waiting = {"phase": "Pending", "conditions": [{"type": "Pending", "status": "True"}]}
    for name, job in {
        "small jobs": small,
        "small jobs with a status": {**small, "status": waiting},
        "jobs without anything": none,
        "jobs with a coordinator": coordinated,
    }.items():
        yield f"a list of {name}", conversion(_filled(size, job))
    text = json.dumps({"spec": small["spec"], "status": waiting}, separators=(",", ":"))
    annotated = {
        "apiVersion": f"{_GROUP}/v1alpha1",
        "kind": "DIJob",
        "metadata": {"annotations": {f"{_GROUP}/v2alpha1": text}},
        "spec": {},
        "status": {},
    }
    yield "a list of annotated jobs", conversion(_filled(size, annotated), "v2alpha1")


def _filled(size: int, job: Object) -> list[Any]:
    return [job] * (size // (len(json.dumps(job, separators=(",", ":"))) + 1))


def conversion(jobs: list[Any], version: str = "v1alpha1") -> bytes:
    """A review that converts jobs, as the API server writes it."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "desiredAPIVersion": f"{_GROUP}/{version}",
        "objects": jobs,
    }
    kind = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
    return json.dumps({**kind, "request": request}, separators=(",", ":")).encode()


def changes(job: Object) -> Iterator[tuple[str, Object]]:
    """Yield changes of a job: its first value, its last one, and the removal of nearly all."""
    yield "a change of", {**job, "spec": {**job["spec"], "suspend": True}}
    yield "another end of", {**job, "spec": _with_another_end(job["spec"])}
    yield "a change from", _job()


def _with_another_end(value: Any) -> Any:
    """The same value, whose innermost last part is another."""
    if isinstance(value, dict) and value:
        *_, last = value
        return {**value, last: _with_another_end(value[last])}
    if isinstance(value, list) and value:
        return [*value[:-1], _with_another_end(value[-1])]
    return "other"


def review(job: Object, *, old: Object | None = None) -> bytes:
    """A review of a job, as the API server writes it."""
    kind = {"group": _GROUP, "version": "v2alpha1", "kind": "DIJob"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": {"group": _GROUP, "version": "v2alpha1", "resource": "dijobs"},
        "requestKind": kind,
        "name": "heavy",
        "namespace": "default",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "mallory", "groups": ["system:authenticated"]},
        "object": job,
        "oldObject": old,
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "PatchOptions"},
    }
    envelope = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(envelope, separators=(",", ":")).encode()
