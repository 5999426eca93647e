"""States of a job as a whole: suspended, deleted, succeeded, without an operator, healthy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.explain import Facts
from tests.unit.api.explain.cluster import POD, Object, condition, pod, seen, time
from tests.unit.api.explain.first_lines.case import Case

_OTHER: Final = "cartpole-collector-0"
_HOLD: Final = "example.com/keep"
_GRACE: Final = "the grace period"


def _deleting(found: Object, minute: int = 58, grace: int = 30) -> Object:
    found["metadata"] |= {
        "deletionTimestamp": time(minute),
        "deletionGracePeriodSeconds": grace,
    }
    return found


def _ended_at_once(name: str = POD) -> Object:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": time(45), "finishedAt": time(45)}
    return pod(name, phase="Succeeded", node="gpu-1", ended=ended)


def running(*pods: Object, reported: str = "2026-03-01T11:59:50Z", **others: Any) -> Facts:
    """A job that is Running, with what it last reported."""
    status = {"replicas": 2, "readyReplicas": 2, **others.pop("status", {})}
    if reported:
        status["progress"] = {"step": 62, "reportedAt": reported}
    return seen("Running", "JobRunning", "all 2 pods are ready", *pods, status=status, **others)


def ready(name: str = POD) -> Object:
    return pod(name, phase="Running", node="gpu-1", ready=True)


_SUCCESS: Final = condition(
    "SuccessCriteriaMet",
    value=True,
    reason="TasksSucceeded",
    message="task learner succeeded; 1 other pod to end within 30 seconds",
    at=59,
)
_HELD: Final = (
    f"1 pod not ending, {POD} first: being deleted since {time(55)}, held by finalizer "
    "example.org/hold"
)
_BY_ANN: Final = {"generation": 4, "annotations": {"diengine/changed-by": "4 ann@example.org"}}


def _managed(at: int, **others: Any) -> dict[str, Any]:
    """Metadata of a job that kubectl-patch suspended, and that kubectl-edit wrote at a minute."""
    fields: Object = {"kubectl-patch": {"f:suspend": {}}, "kubectl-edit": {"f:priority": {}}}
    times = {"kubectl-patch": time(50), "kubectl-edit": time(at)}
    entries = [
        {"manager": who, "time": times[who], "fieldsV1": {"f:spec": owned}}
        for who, owned in fields.items()
    ]
    status = {"manager": "di-operator", "time": time(59), "subresource": "status"}
    return {**others, "managedFields": [*entries, {**status, "fieldsV1": {"f:status": {}}}]}


_BY_NOBODY: Final = {"generation": 5, "annotations": {"diengine/changed-by": "4 ann@example.org"}}

CASES: Final[Mapping[str, Case]] = {
    "ends-at-once": Case(
        facts=seen("Succeeded", "JobSucceeded", "task learner succeeded", _ended_at_once()),
        says=("has succeeded", POD, "exit code 0", "less than a second"),
    ),
    "ends-at-once-within-the-grace": Case(
        facts=seen(
            "Running",
            "JobRunning",
            "all 2 pods are ready",
            _ended_at_once(),
            _deleting(ready(_OTHER)),
            conditions=[_SUCCESS],
        ),
        says=(POD, "exit code 0", "less than a second", "1 other pod to end within 30 seconds"),
        never=("nothing keeps",),
    ),
    "suspended": Case(
        facts=seen("Pending", "JobSuspended", spec={"suspend": True}, metadata=_BY_ANN),
        says=("is suspended", "by ann@example.org", "10m"),
    ),
    "suspended-by-whom": Case(
        facts=seen(
            "Pending", "JobSuspended", spec={"suspend": True}, metadata=_managed(40, **_BY_ANN)
        ),
        says=("is suspended for 10m by ann@example.org (kubectl-patch)",),
    ),
    "suspended-and-changed-since": Case(
        facts=seen(
            "Pending", "JobSuspended", spec={"suspend": True}, metadata=_managed(55, **_BY_ANN)
        ),
        says=("with kubectl-patch", "its spec was last changed by ann@example.org"),
        never=("suspended for 10m by",),
    ),
    "suspended-and-the-author-is-unknown": Case(
        facts=seen("Pending", "JobSuspended", spec={"suspend": True}, metadata=_BY_NOBODY),
        says=("is suspended", "10m"),
        never=("ann",),
    ),
    "held": Case(
        facts=seen(
            "Rescheduling",
            "",
            "",
            _deleting(pod(), 55),
            conditions=[condition("PodNotEnding", value=True, message=_HELD)],
        ),
        says=(POD, "held by finalizer example.org/hold", f"since {time(55)}"),
    ),
    "job-held": Case(
        facts=seen("Running", metadata={"deletionTimestamp": time(50), "finalizers": [_HOLD]}),
        says=("being deleted", f"finalizer {_HOLD}"),
        never=(_GRACE, "grace period"),
    ),
    "job-deleted": Case(
        facts=seen(
            "Running",
            "",
            "",
            _deleting(ready()),
            _deleting(ready(_OTHER)),
            metadata={"deletionTimestamp": time(59), "finalizers": ["foregroundDeletion"]},
        ),
        says=("being deleted", "2 pods", "grace period"),
    ),
    "nobody-leads": Case(
        facts=running(),
        says=("none of its 2 pods", "operator"),
        never=("nothing keeps",),
    ),
    "nobody-leads-a-new-job": Case(facts=seen(), says=("no operator",)),
    "a-pod-is-missing": Case(
        facts=running(ready()),
        says=("1 of 2 pods",),
        never=("nothing keeps",),
    ),
    "a-pod-is-not-ready": Case(
        facts=running(ready(), pod(_OTHER, phase="Running", node="gpu-1")),
        says=(_OTHER, "not ready"),
        never=("nothing keeps",),
    ),
    "a-pod-ends": Case(
        facts=running(ready(), _deleting(ready(_OTHER))),
        says=(_OTHER, "grace period"),
        never=("nothing keeps",),
    ),
    "pods-are-unreadable": Case(
        facts=running(unread=frozenset({"pods"})),
        says=("pods cannot be read",),
        never=("nothing keeps", "operator"),
    ),
    "silent": Case(
        facts=running(ready(), ready(_OTHER), reported=time(20)),
        says=("40m", "report"),
        never=("nothing keeps",),
    ),
    "reports-nothing": Case(
        facts=running(ready(), ready(_OTHER), reported=""),
        says=("2 pods are ready", "reported no"),
        never=("nothing keeps",),
    ),
    "runs": Case(
        facts=running(ready(), ready(_OTHER)), says=("nothing keeps it from going on", "2 pods")
    ),
    "pods-end-before-a-restart": Case(
        facts=seen(
            "Restarting",
            "JobRestarting",
            "restarting all tasks",
            _deleting(ready()),
            _deleting(ready(_OTHER)),
            status={"replicas": 2},
        ),
        says=("2 pods", "grace period"),
        never=("nothing keeps",),
    ),
    "containers-are-created": Case(
        facts=seen(
            "Starting",
            "JobStarting",
            "created 2 pods",
            ready(),
            pod(_OTHER, node="gpu-1", waiting=("ContainerCreating", "")),
            status={"replicas": 2},
        ),
        says=("1 of 2 pods", _OTHER, "ContainerCreating"),
        never=("nothing keeps",),
    ),
}
