"""Kueue in the cluster: which Workloads have quota."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from di_api.names import LABEL_QUEUE
from di_api.queued import SUSPENSION_NOTE
from di_api.timestamps import format_time
from di_kube.resources import RESOURCE_FLAVORS, WORKLOADS
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, WatchedApi, copied
from tests.unit.operator.virtual_time import VirtualClock

FLAVOR: Final = "default"
OF_QUEUE: Final = {"labels": {LABEL_QUEUE: "team"}, "annotations": SUSPENSION_NOTE}
"""Metadata of a new job with a queue, as the webhook admits it."""


def create_flavor(api: WatchedApi) -> None:
    """Create the only ResourceFlavor."""
    api.put(RESOURCE_FLAVORS, "", {"metadata": {"name": FLAVOR}, "spec": {}})


def admit_some(
    api: WatchedApi, clock: VirtualClock, random: Random, *, is_checked: bool = False
) -> None:
    """Give some of the Workloads that wait their quota, and admit them unless a check of their
    admission follows (`is_checked`).
    """
    for body in api.all(WORKLOADS.kind):
        is_waiting = not (has_quota(body) or _is(body, "Finished"))
        if is_waiting and "deletionTimestamp" not in body["metadata"] and random.random() < 0.5:
            assigned = [
                {"name": each["name"], "count": each["count"], "flavors": {"cpu": FLAVOR}}
                for each in body["spec"]["podSets"]
            ]
            admission = {"clusterQueue": "main", "podSetAssignments": assigned}
            body.setdefault("status", {})["admission"] = admission
            api.put(WORKLOADS, NAMESPACE, body)
            name = body["metadata"]["name"]
            set_conditions(
                api, clock, name, QuotaReserved=True, Admitted=not is_checked, Evicted=False
            )


def set_conditions(api: WatchedApi, clock: VirtualClock, name: str, **values: bool) -> None:
    """Set conditions of a Workload."""
    body = copied(api.stored(WORKLOADS.kind)[name])
    status = body.setdefault("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    for kind, value in values.items():
        conditions[kind] = {
            "type": kind,
            "status": str(value),
            "reason": "Preempted",
            "message": "so",
            "lastTransitionTime": format_time(clock.now()),
        }
    status["conditions"] = [*conditions.values()]
    api.put(WORKLOADS, NAMESPACE, body)


def is_admitted(api: WatchedApi, name: str) -> bool:
    """Return whether a Workload has quota that Kueue has not requested back."""
    body = api.stored(WORKLOADS.kind)[name]
    return has_quota(body) and not _is(body, "Evicted") and not _is(body, "Finished")


def has_quota(body: Object) -> bool:
    """Return whether a Workload has quota."""
    return bool((body.get("status") or {}).get("admission"))


def pods_with_quota(api: WatchedApi, task: str) -> int:
    """Return how many pods of a task have quota, admitted or still to be released."""
    return sum(
        assigned["count"]
        for body in api.stored(WORKLOADS.kind).values()
        if has_quota(body) and not _is(body, "Finished")
        for assigned in body["status"]["admission"]["podSetAssignments"]
        if assigned["name"] == task
    )


def _is(body: Object, kind: str) -> bool:
    conditions: list[dict[str, Any]] = (body.get("status") or {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
