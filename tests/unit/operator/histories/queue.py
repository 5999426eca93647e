"""Kueue in the cluster: which Workloads have quota."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from di_api.names import LABEL_QUEUE
from di_api.ownership import controller_uid
from di_api.queued import SUSPENSION_NOTE
from di_api.timestamps import format_time
from di_kube.resources import RESOURCE_FLAVORS, WORKLOADS
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, WatchedApi, copied
from tests.unit.operator.virtual_time import VirtualClock

FLAVOR: Final = "default"
OF_QUEUE: Final = {"labels": {LABEL_QUEUE: "team"}, "annotations": SUSPENSION_NOTE}
"""Metadata of a new job with a queue, as the webhook admits it."""


UNLIMITED: Final = 1000


def create_flavor(api: WatchedApi) -> None:
    """Create the only ResourceFlavor."""
    api.put(RESOURCE_FLAVORS, "", {"metadata": {"name": FLAVOR}, "spec": {}})


def admit_some(
    api: WatchedApi,
    clock: VirtualClock,
    random: Random,
    *,
    is_checked: bool = False,
    most: int = UNLIMITED,
) -> None:
    """Give some of the Workloads that wait their quota, and admit them unless a check of their
    admission follows (`is_checked`). `most`: pods that have quota at the same time.
    """
    found = api.all(WORKLOADS.kind)
    free = most - sum(
        _pods(each) for each in found if has_quota(each) and not _is(each, "Finished")
    )
    for body in found:
        is_waiting = not (has_quota(body) or _is(body, "Finished")) and _pods(body) <= free
        if is_waiting and "deletionTimestamp" not in body["metadata"] and random.random() < 0.5:
            free -= _pods(body)
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


def pods_with_quota(api: WatchedApi) -> Counter[tuple[str, str]]:
    """Return how many pods have quota, admitted or still to be released, by the UID of their job
    and their task.
    """
    found = Counter[tuple[str, str]]()
    for body in api.stored(WORKLOADS.kind).values():
        if has_quota(body) and not _is(body, "Finished") and (job := controller_uid(body)):
            for assigned in body["status"]["admission"]["podSetAssignments"]:
                found[job, assigned["name"]] += assigned["count"]
    return found


def _pods(body: Object) -> int:
    return sum(each["count"] for each in body["spec"]["podSets"])


def _is(body: Object, kind: str) -> bool:
    conditions: list[dict[str, Any]] = (body.get("status") or {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)
