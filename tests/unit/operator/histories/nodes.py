"""The nodes of the cluster, on which an allocator places pods."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

from di_kube.resources import NODES, PODS
from di_operator.builders.pinning import Binding, node_of
from di_operator.lifecycle.observed.pods import is_finished
from tests.unit.allocator.objects import SLOT, node
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, WatchedApi, copied

NAMES: Final = ("n1", "n2", "n3")
SLOTS: Final = 3
"""Pods that each node can have."""
_OTHERS: Final = ("other-1", "other-2")
"""Names of pods that belong to no job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The policy of the allocator, and the component that binds the pods that it places."""

    policy: str = "fit"
    binding: Binding = Binding.SCHEDULER


def add_nodes(api: WatchedApi) -> None:
    """Add the nodes that are missing, and make all schedulable."""
    for name in NAMES:
        found = api.stored(NODES.kind).get(name)
        body = node(name, SLOTS)
        # A node that is added again is another object.
        body["metadata"] = {"name": name} if found is None else copied(found)["metadata"]
        api.put(NODES, "", body)


def cordon(api: WatchedApi, name: str) -> None:
    """Mark a node as unschedulable."""
    if (found := api.stored(NODES.kind).get(name)) is not None:
        api.put(NODES, "", {**copied(found), "spec": {"unschedulable": True}})


def lose(api: WatchedApi, name: str) -> None:
    """Remove a node, with the pods on it."""
    if name in api.stored(NODES.kind):
        api.remove(NODES.kind, name, "")
        for pod, body in [*api.stored(PODS.kind).items()]:
            if body["spec"].get("nodeName") == name:
                api.request_deletion(PODS.kind, pod, 0)


def add_other(api: WatchedApi, random: Random) -> None:
    """Create a pod that belongs to no job, perhaps of a higher priority."""
    container = {"name": "c", "image": "i", "resources": {"requests": {SLOT: "1"}}}
    for name in _OTHERS:
        if name not in api.stored(PODS.kind):
            spec = {"containers": [container], "priority": random.choice([0, 1000])}
            api.put(PODS, NAMESPACE, {"metadata": {"name": name}, "spec": spec})
            return


def is_of_others(name: str) -> bool:
    """Return whether a pod of that name belongs to no job."""
    return name in _OTHERS


def taken_slots(api: WatchedApi) -> Counter[str]:
    """Return the number of pods that have not ended, by the node that they are bound to."""
    return Counter(
        pod["spec"].get("nodeName", "")
        for pod in api.stored(PODS.kind).values()
        if not is_finished(pod)
    )


def pods_on(api: WatchedApi, node: str) -> list[Object]:
    """Return the pods that have not ended and are bound to a node, or are to be."""
    return [
        pod
        for pod in api.stored(PODS.kind).values()
        if not is_finished(pod) and node_of(pod["spec"]) == node
    ]


def delete_homeless(api: WatchedApi) -> None:
    """Delete the pods that are bound to a node which does not exist."""
    for name, pod in [*api.stored(PODS.kind).items()]:
        node = pod["spec"].get("nodeName")
        if node and node not in api.stored(NODES.kind):
            api.request_deletion(PODS.kind, name, 0)


def is_full(api: WatchedApi, node: str) -> bool:
    """Return whether as many programs run on a node as it has slots."""
    running = [pod for pod in pods_on(api, node) if pod["status"]["phase"] == "Running"]
    return len(running) >= SLOTS


def crowded(api: WatchedApi) -> list[str]:
    """Return the nodes that have, or are to get, more pods than they can have.

    Pods that the scheduler refuses have no place there: others had taken it.
    """
    return [
        name for name in NAMES if sum(not is_refused(pod) for pod in pods_on(api, name)) > SLOTS
    ]


def is_refused(pod: Object) -> bool:
    """Return whether the scheduler has found no node for a pod."""
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return conditions.get("PodScheduled") == "False"
