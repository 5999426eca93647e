"""The nodes of the cluster, on which an allocator places pods."""

from __future__ import annotations

from collections import Counter
from typing import Final

from di_kube.resources import NODES, PODS
from tests.unit.allocator.objects import node
from tests.unit.operator.histories.api import WatchedApi, copied

NAMES: Final = ("n1", "n2", "n3")
SLOTS: Final = 3
"""Pods that each node can have."""


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


def crowded(api: WatchedApi) -> list[str]:
    """Return the nodes with more pods than they can have."""
    using = Counter(
        str(pod["spec"].get("nodeName"))
        for pod in api.stored(PODS.kind).values()
        if pod["status"]["phase"] not in ("Succeeded", "Failed")
    )
    return sorted(name for name, pods in using.items() if pods > SLOTS)
