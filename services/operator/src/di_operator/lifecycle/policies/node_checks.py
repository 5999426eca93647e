"""Detects slow nodes of a task from the checks that its pods run before they start.

A node is slow if it took more than twice the median of all nodes of the task, for its own work or
for exchanges of data with other nodes. Only the quickest exchange of a node counts, because the
partner may cause a slow one: a node is avoided if all its exchanges, with different partners, were
slow or failed. With two nodes, or if half of the nodes are slow, the check cannot decide which is
at fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median_low
from typing import Any, Final

from di_api.spec import NodeCheckAction, Task
from di_operator.lifecycle.observed.check_reports import CheckReport, report_of
from di_operator.lifecycle.observed.ledger import AVOIDED_FOR
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.status import AvoidedNodes, dump_avoided
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem

Object = Mapping[str, Any]

MOST_AVOIDED: Final = 8
"""Maximum number of nodes that a task avoids at a time: a task must not run out of nodes because
of its checks.
"""
SLOW: Final = "SlowNodes"
NO_REPORT: Final = "NoReport"
NO_EXCHANGE: Final = "NoExchange"
_FACTOR: Final = 2.0
_LEAST_PARTNERS: Final = 2
_SHOWN: Final = 3
_CHECKED: Final = Aside(
    type=Problem.NODE_CHECK_FAILED,
    value=False,
    reason="NodesChecked",
    message="no node of the job is slow by its checks",
)
_NOT_SLOW: Final = Report(conditions=(_CHECKED,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The results of the checks of all pods of a task."""

    task: Task
    times: dict[str, float] = field(default_factory=dict)
    """Seconds of a node's own work, the minimum of its pods: pods on one node slow each other
    down.
    """
    exchanges: dict[str, float] = field(default_factory=dict)
    """Seconds of the quickest exchange by node; infinite if all failed. Nodes without one are left
    out.
    """
    partners: dict[str, set[int]] = field(default_factory=dict)
    """Partners of the exchanges, by node."""
    silent: list[str] = field(default_factory=list)
    """Pods whose check ended without a duration."""
    failed: dict[str, str] = field(default_factory=dict)
    """Pods with a failed exchange, or without any, and the error."""

    @property
    def slow(self) -> Mapping[str, float]:
        """Return the slow nodes with their multiple of the median; empty if that cannot be
        decided.
        """
        if self.silent:
            return {}
        of_both = (_ratios(self.times), self._slow_exchanges())
        return {
            node: max(found.get(node, 0.0) for found in of_both)
            for node in {**of_both[0], **of_both[1]}
        }

    @property
    def has_no_exchange(self) -> bool:
        """Return whether pods tried to exchange data and all attempts failed."""
        return bool(self.failed) and not any(map(math.isfinite, self.exchanges.values()))

    @property
    def reason(self) -> str | None:
        """Return the reason for a problem; None if none is known."""
        if self.slow:
            return SLOW
        if self.silent:
            return NO_REPORT
        return NO_EXCHANGE if self.has_no_exchange else None

    def describe(self) -> str:
        """Return a message with the slow nodes and their times."""
        return f"task {self.task.name}: {'; '.join(self._words())}"

    def _words(self) -> Iterator[str]:
        if self.silent:
            yield f"the check of pod {self.silent[0]} did not say how long it took"
        else:
            if slow := _ratios(self.times):
                yield _comparison(slow, self.times, lambda node: f"took {self.times[node]:g} s")
            if slow := self._slow_exchanges():
                yield _comparison(slow, self.exchanges, self._exchange_of)
        if self.has_no_exchange:
            pod, why = next(iter(self.failed.items()))
            yield f"no pod could exchange data with another ({pod}: {why})"

    def _exchange_of(self, node: str) -> str:
        seconds = self.exchanges[node]
        if math.isfinite(seconds):
            return f"took {seconds:g} s to exchange data"
        return f"could not exchange data with {len(self.partners[node])} others"

    def _slow_exchanges(self) -> dict[str, float]:
        return {
            node: ratio
            for node, ratio in _ratios(self.exchanges).items()
            if len(self.partners[node]) >= _LEAST_PARTNERS
        }


def slow_nodes(times: Mapping[str, float]) -> dict[str, float]:
    """Return the nodes, with their seconds, that took more than twice the median."""
    if len(times) <= 2:
        return {}
    limit = _FACTOR * _median(times)
    slow = {node: taken for node, taken in times.items() if taken > limit}
    return {} if 2 * len(slow) >= len(times) else slow


def report_nodes(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition NodeCheckFailed and the nodes that tasks avoid."""
    tasks = [task for task in snapshot.tasks if task.node_check is not None]
    if not tasks:
        return _NOT_SLOW
    found = [_finding(snapshot, task) for task in tasks]
    avoided = _avoided_nodes(snapshot, found, now)
    return Report(
        conditions=(_condition(snapshot, found),),
        fields={"avoidedNodes": dump_avoided(avoided)} if avoided else {},
    )


def _condition(snapshot: Snapshot, found: Sequence[Finding | None]) -> Aside:
    problem = Problem.NODE_CHECK_FAILED
    written = snapshot.status.conditions.get(problem)
    if wrong := _wrong_nodes(found):
        reason, message = wrong
        return Aside(type=problem, value=True, reason=reason, message=message)
    if written is not None and written["status"] == "True" and None in found:
        # A pod is being replaced: the condition stays until all pods have reported again.
        reason, message = written["reason"], written["message"]
        return Aside(type=problem, value=True, reason=reason, message=message)
    return _CHECKED


def checked_tasks(snapshot: Snapshot) -> frozenset[str]:
    """Return the tasks that have pods past their checks: a new pod has no partner to wait for."""
    tasks = {task.name for task in snapshot.tasks if task.node_check is not None}
    present = {pod.name for pod in (*snapshot.live, *snapshot.succeeded)} if tasks else ()
    return frozenset(
        slot.task.name
        for slot in snapshot.slots
        if slot.task.name in tasks
        and slot.name in present
        and _report(snapshot.held[slot.name]) is not None
    )


def _wrong_nodes(found: Iterable[Finding | None]) -> tuple[str, str] | None:
    """Return reason and message of a problem with the nodes of a job; None if none is known."""
    wrong = [(reason, each) for each in found if each is not None and (reason := each.reason)]
    if not wrong:
        return None
    reasons = {reason for reason, _ in wrong}
    gravest = next(each for each in (SLOW, NO_REPORT, NO_EXCHANGE) if each in reasons)
    return gravest, "; ".join(each.describe() for _, each in wrong)


def _avoided_nodes(
    snapshot: Snapshot, found: Iterable[Finding | None], now: datetime
) -> AvoidedNodes:
    """Return the nodes that each task avoids, and until when, given the new findings."""
    slow = {each.task.name: each.slow for each in found if each is not None}
    avoided: dict[str, Mapping[str, datetime]] = {}
    for task in snapshot.tasks:
        check = task.node_check
        if check is None or check.action is not NodeCheckAction.AVOID_NODE:
            continue
        before = snapshot.status.avoided_nodes.get(task.name, {})
        kept = {node: until for node, until in before.items() if until > now}
        for node in _worst_first(slow.get(task.name, {})):
            if len(kept) < MOST_AVOIDED:
                kept.setdefault(node, now + AVOIDED_FOR)
        if kept:
            avoided[task.name] = kept
    return avoided


def _finding(snapshot: Snapshot, task: Task) -> Finding | None:
    found = Finding(task=task)
    for slot in snapshot.slots:
        if slot.task.name != task.name:
            continue
        pod = snapshot.held.get(slot.name)
        said = _report(pod)
        if pod is None or said is None:
            if not slot.is_core:
                continue
            return None
        _take_in(found, pod, CheckReport.read(said))
    return found


def _take_in(found: Finding, pod: Pod, report: CheckReport) -> None:
    if report.seconds is None:
        found.silent.append(pod.name)
    else:
        found.times[pod.node] = min(report.seconds, found.times.get(pod.node, math.inf))
    if report.failed is not None:
        found.failed[pod.name] = report.failed
    for each in report.exchanges:
        before = found.exchanges.get(pod.node, math.inf)
        taken = math.inf if each.seconds is None else each.seconds
        found.exchanges[pod.node] = min(taken, before)
        found.partners.setdefault(pod.node, set()).add(each.partner)
        if each.seconds is None:
            found.failed.setdefault(pod.name, f"{each.why} with pod {each.partner}")


def _report(pod: Pod | None) -> str | None:
    # A pod that failed or is being deleted gets a replacement, which will run the check.
    if pod is None or pod.terminating or pod.phase == "Failed" or not pod.node:
        return None
    statuses: Iterable[Object] = (pod.raw.get("status") or {}).get("initContainerStatuses") or ()
    return next((said for each in statuses if (said := report_of(each)) is not None), None)


def _ratios(times: Mapping[str, float]) -> dict[str, float]:
    """Return by how many times the slow nodes exceed the median."""
    return {node: taken / _median(times) for node, taken in slow_nodes(times).items()}


def _comparison(
    slow: Mapping[str, float], times: Mapping[str, float], story: Callable[[str], str]
) -> str:
    worst = _worst_first(slow)
    shown = ", ".join(f"node {node} {story(node)}" for node in worst[:_SHOWN])
    more = f" and {len(worst) - _SHOWN} more" if len(worst) > _SHOWN else ""
    return f"{shown}{more}, the median of {len(times)} nodes is {_median(times):g} s"


def _worst_first(slow: Mapping[str, float]) -> list[str]:
    return sorted(slow, key=lambda node: (-slow[node], node))


def _median(times: Mapping[str, float]) -> float:
    # The lower median: if half of the nodes are slow, their times must not become the reference.
    return median_low(times.values())


NODE_CHECKS: Final = Policy(report=report_nodes)
