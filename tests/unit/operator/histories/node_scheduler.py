"""The scheduler of the cluster, which binds pods to nodes with free slots or refuses them."""

from __future__ import annotations

from random import Random
from typing import Final

from di_kube.resources import NODES, PODS
from di_operator.lifecycle.observed.pods import is_finished
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, WatchedApi, copied
from tests.unit.operator.histories.nodes import SLOTS, taken_slots

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeScheduler:
    """Binds waiting pods, in an order of its own."""

    def __init__(self, api: WatchedApi, random: Random) -> None:
        self._api = api
        self._random = random
        self._refused = set[str]()
        self._share = 0.7

    def refuse(self, node: str) -> None:
        """Refuse a node to all pods from now on, for a reason that only the scheduler knows."""
        self._refused.add(node)

    def slow_down(self) -> None:
        """Bind or refuse few of the waiting pods each time from now on."""
        self._share = 0.05

    def calm_down(self) -> None:
        """Refuse no node without need, and do not wait."""
        self._refused.clear()
        self._share = 0.7

    def bind_some(self) -> None:
        """Bind or refuse some of the waiting pods."""
        waiting = [name for name, pod in self._api.stored(PODS.kind).items() if _is_waiting(pod)]
        self._random.shuffle(waiting)
        for name in waiting:
            if self._random.random() < self._share:
                self._bind(copied(self._api.stored(PODS.kind)[name]))

    def _bind(self, pod: Object) -> None:
        nodes = self._api.stored(NODES.kind)
        taken = taken_slots(self._api)
        reasons: dict[str, str] = {}
        for name in sorted(nodes):
            if (nodes[name].get("spec") or {}).get("unschedulable"):
                reasons[name] = "is unschedulable"
            elif not _admits(pod["spec"], name):
                reasons[name] = "does not match the pod's node affinity"
            elif taken[name] >= SLOTS:
                reasons[name] = "has too few slots"
            elif name in self._refused:
                reasons[name] = "has a volume node affinity conflict"
        free = [name for name in sorted(nodes) if name not in reasons]
        condition = {"type": "PodScheduled", "status": "True"}
        if free:
            pod["spec"]["nodeName"] = self._random.choice(free)
        else:
            words = ", ".join(f"{name} {reason}" for name, reason in reasons.items())
            message = f"0/{len(nodes)} nodes are available: {words}"
            condition |= {"status": "False", "reason": "Unschedulable", "message": message}
        conditions = [
            *(c for c in pod["status"].get("conditions", ()) if c["type"] != "PodScheduled"),
            condition,
        ]
        pod["status"] = {**pod["status"], "conditions": conditions}
        self._api.put(PODS, NAMESPACE, pod)


def _is_waiting(pod: Object) -> bool:
    is_bound = "nodeName" in pod["spec"] or is_finished(pod)
    return not is_bound and "deletionTimestamp" not in pod["metadata"]


def _admits(spec: Object, node: str) -> bool:
    """Return whether the required node affinity of a pod, by names, admits a node."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    return not terms or any(
        all((node in each["values"]) == (each["operator"] == "In") for each in term["matchFields"])
        for term in terms
    )
