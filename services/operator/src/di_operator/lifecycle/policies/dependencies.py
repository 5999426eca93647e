"""dependsOn: a task's pods are created once every pod of the named tasks is ready or done.

Pods of elastic tiers are not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping

from di_operator.lifecycle.observed.snapshot import Snapshot


def waiting_tasks(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the tasks that must not start yet, each with the first task it waits for.

    This includes replacements and added replicas, not only the start of the job.
    """
    if snapshot.spec is None:
        return {}
    up = {pod.name for pod in snapshot.ready} | snapshot.done
    needed = (slot for slot in snapshot.slots if slot.is_core)
    unready = {slot.task.name for slot in needed if slot.name not in up}
    waits = {
        task.name: next((name for name in task.depends_on if name in unready), None)
        for task in snapshot.spec.tasks
    }
    return {task: name for task, name in waits.items() if name is not None}
