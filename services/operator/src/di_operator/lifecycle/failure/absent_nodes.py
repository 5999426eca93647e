"""Replicas whose template binds their pods to a node that does not exist.

No scheduler considers such a pod and no kubelet accepts it, so its status shows no problem. The
cluster's garbage collector deletes it after some forty seconds.
"""

from __future__ import annotations

from datetime import datetime

from di_api.field_error import mapping
from di_api.spec import Task
from di_operator.lifecycle.failure.restart_delay import follows_losses
from di_operator.lifecycle.observed.blockers import Blocker
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.vocabulary.reasons import Reason


def absent_node_of(snapshot: Snapshot, pod: str) -> str | None:
    """Return a message about the absent node that the pod is bound to; None if there is none."""
    bound = next((slot for slot in _bound(snapshot) if slot.name == pod), None)
    return _absent(snapshot, bound) if bound is not None else None


def on_absent_nodes(snapshot: Snapshot, now: datetime) -> list[tuple[str, Blocker]]:
    """Return the names of the pods that are, or would be, bound to a node that does not exist.

    Each comes with its blocker. Without an allocator the operator knows no nodes. It then returns
    the pods that no kubelet has accepted, in replicas that have lost others before.
    """
    found: list[tuple[str, Blocker]] = []
    for slot in _bound(snapshot):
        pod, text = snapshot.held.get(slot.name), None
        if pod is None or not pod.is_taken_up:
            text = _absent(snapshot, slot)
        if snapshot.nodes is None and pod is not None and not pod.is_taken_up:
            text = _not_taken_up(slot) if follows_losses(snapshot, slot, now) else None
        if text is not None:
            found.append((slot.name, Blocker(reason=Reason.NODE_NOT_FOUND, message=text)))
    return found


def _absent(snapshot: Snapshot, slot: Slot) -> str | None:
    if snapshot.nodes is None or _node_of(slot) in snapshot.nodes:
        return None
    return f"{_binds(slot)}, which does not exist"


def _not_taken_up(slot: Slot) -> str:
    return f"{_binds(slot)}, where no kubelet has accepted it: check that the node exists"


def _binds(slot: Slot) -> str:
    return f"the template of task {slot.task.name} binds it to node {_node_of(slot)}"


def _bound(snapshot: Snapshot) -> list[Slot]:
    tasks = {task.name for task in snapshot.tasks if _names_a_node(task)}
    return [slot for slot in snapshot.slots if slot.task.name in tasks and _node_of(slot)]


def _node_of(slot: Slot) -> str:
    return str(mapping(slot.task.template_of(slot.index).get("spec")).get("nodeName") or "")


def _names_a_node(task: Task) -> bool:
    templates = (task.template, task.leader_template)
    return any(mapping(each.get("spec")).get("nodeName") for each in templates)
