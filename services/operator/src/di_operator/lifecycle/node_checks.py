"""Nodes that are much slower than the others of a task, by what its pods told before they began.

A node is slow that took more than twice the median of all nodes of the task. Of two nodes, or where
half of them are slow, nobody can say which is as it should be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median_low
from typing import Any, Final

from di_api.names import NODE_CHECK
from di_api.spec import NodeCheckAction, Task
from di_operator.lifecycle.ledger import AVOIDED_FOR
from di_operator.lifecycle.pods import Pod
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.status import AvoidedNodes

Object = Mapping[str, Any]

MOST_AVOIDED: Final = 8
"""Nodes that a task is kept away from at a time: more than that are no exceptions, and a task must
not run out of nodes for it."""
SLOW: Final = "SlowNodes"
NO_REPORT: Final = "NoReport"
_FACTOR: Final = 2.0
_LONGEST_REPORT: Final = 256
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the checks of all pods of a task say."""

    task: Task
    times: Mapping[str, float]
    """Seconds by node, the least of its pods: those of one node hold each other up."""
    silent: tuple[str, ...]
    """Pods whose check ended without saying how long it took."""

    @property
    def slow(self) -> Mapping[str, float]:
        """The nodes that are too slow, none if that cannot be decided."""
        return {} if self.silent else slow_nodes(self.times)

    def describe(self) -> str:
        """Say which and by how much."""
        task, count = f"task {self.task.name}", len(self.times)
        if self.silent:
            return f"{task}: the check of pod {self.silent[0]} did not say how long it took"
        slow = sorted(self.slow.items(), key=lambda each: (-each[1], each[0]))
        shown = ", ".join(f"node {node} took {taken:g} s" for node, taken in slow[:_SHOWN])
        more = f" and {len(slow) - _SHOWN} more" if len(slow) > _SHOWN else ""
        return f"{task}: {shown}{more}, the median of {count} nodes is {_median(self.times):g} s"


def slow_nodes(times: Mapping[str, float]) -> dict[str, float]:
    """Return those of the nodes, with their seconds, that took more than twice the median."""
    if len(times) <= 2:
        return {}
    limit = _FACTOR * _median(times)
    slow = {node: taken for node, taken in times.items() if taken > limit}
    return {} if 2 * len(slow) >= len(times) else slow


def check_nodes(snapshot: Snapshot) -> tuple[Finding | None, ...]:
    """What the pods of each task with a check have told; None: not all of its pods have yet."""
    tasks = (task for task in snapshot.tasks if task.node_check is not None)
    return tuple(_finding(snapshot, task) for task in tasks)


def wrong_nodes(found: Iterable[Finding | None]) -> tuple[str, str] | None:
    """Reason and message of what is wrong with the nodes of a job; None: nothing that is known."""
    wrong = [each for each in found if each is not None and (each.slow or each.silent)]
    if not wrong:
        return None
    reason = SLOW if any(each.slow for each in wrong) else NO_REPORT
    return reason, "; ".join(each.describe() for each in wrong)


def avoided_nodes(
    snapshot: Snapshot, found: Iterable[Finding | None], now: datetime
) -> AvoidedNodes:
    """The nodes that each task is kept away from, and until when, after what was found."""
    slow = {each.task.name: each.slow for each in found if each is not None}
    avoided: dict[str, Mapping[str, datetime]] = {}
    for task in snapshot.tasks:
        check = task.node_check
        if check is None or check.action is not NodeCheckAction.AVOID_NODE:
            continue
        before = snapshot.status.avoided_nodes.get(task.name, {})
        kept = {node: until for node, until in before.items() if until > now}
        worst = sorted(slow.get(task.name, {}).items(), key=lambda each: (-each[1], each[0]))
        for node, _ in worst:
            if len(kept) < MOST_AVOIDED:
                kept.setdefault(node, now + AVOIDED_FOR)
        if kept:
            avoided[task.name] = kept
    return avoided


def report_of(container: Object) -> str | None:
    """What the check of a pod said at its end, by the status of that container; None: not yet, or
    it is another container."""
    ended = (container.get("state") or {}).get("terminated")
    if ended is None or container.get("name") != NODE_CHECK:
        return None
    return str(ended.get("message") or "")[:_LONGEST_REPORT]


def _finding(snapshot: Snapshot, task: Task) -> Finding | None:
    times: dict[str, float] = {}
    silent = []
    for slot in snapshot.slots:
        if slot.task.name != task.name:
            continue
        pod = snapshot.held.get(slot.name)
        report = _report(pod)
        if pod is None or report is None:
            return None
        seconds = _seconds(report)
        if seconds is None:
            silent.append(pod.name)
        else:
            times[pod.node] = min(seconds, times.get(pod.node, math.inf))
    return Finding(task=task, times=times, silent=tuple(silent))


def _report(pod: Pod | None) -> str | None:
    # One that failed, or is on its way out, has another one to come in its place.
    if pod is None or pod.terminating or pod.phase == "Failed" or not pod.node:
        return None
    statuses: Iterable[Object] = (pod.raw.get("status") or {}).get("initContainerStatuses") or ()
    return next((said for each in statuses if (said := report_of(each)) is not None), None)


def _seconds(report: str) -> float | None:
    # Whatever a program of the user's writes.
    try:
        said = json.loads(report)
    except ValueError:
        return None
    seconds = said.get("seconds") if isinstance(said, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds) if 0 < seconds < math.inf else None


def _median(times: Mapping[str, float]) -> float:
    # The lower one of two: half of the nodes may be slow, and must not make it theirs.
    return median_low(times.values())
