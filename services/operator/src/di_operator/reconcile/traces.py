"""The operator's spans of a scale request: from the request to the ready pods.

di-server stores the span of the request on the job. Each reconcile that acts on it is a span of
that trace, and so is each new pod, from the reconcile that created it until it is ready. Nothing
else is stored: a new leader continues with requests that are minutes old, and repeats the spans of
their pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from di_api.names import ANNOTATION_TRACE
from di_api.phase import Phase
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.vocabulary.timestamps import parse_time
from di_service.spans import TRACEPARENT, Tracing

NEWS: Final = timedelta(minutes=15)
"""A request that is older when it is first seen was handled by an earlier leader."""
LONGEST: Final = timedelta(hours=1)
"""Time after which a trace no longer waits for the job to be complete."""
MOST_JOBS: Final = 1024
"""Maximum number of open traces; the oldest are dropped."""
MOST_PODS: Final = 32
"""Pods of one request that get spans of their own."""
MOST_RECONCILES: Final = 32


@dataclass(slots=True)
class _Open:
    parent: str
    asked: datetime
    before: frozenset[str]
    """Pods that were ready when the request was first seen."""
    made: dict[str, datetime] = field(default_factory=dict)
    """New pods, with the end of the reconcile that created them."""
    ready: set[str] = field(default_factory=set)
    reconciles: int = 0
    is_over: bool = False


class ScalingTraces:
    """The traces of recently scaled jobs; belongs to the event loop."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[str, _Open] = {}

    def reconciled(
        self, snapshot: Snapshot, *, acted: int, began: datetime, ended: datetime
    ) -> None:
        """Record one step of a job.

        Args:
            snapshot: the input of the decision.
            acted: number of executed actions.
            began: start of the step, and `ended` its end, by one clock.
        """
        trace = self._trace_of(snapshot, began)
        if trace is None or trace.is_over:
            return
        attributes: dict[str, str | int] = {
            "namespace": snapshot.namespace,
            "dijob": snapshot.name,
        }
        self._tell_ready(trace, snapshot, attributes, began)
        if acted and trace.reconciles < MOST_RECONCILES:
            trace.reconciles += 1
            trace.made |= {
                slot.name: ended for slot in snapshot.missing if slot.name not in trace.made
            }
            told = {**attributes, "actions": acted}
            self._tracing.start("reconcile", parent=trace.parent, at=began, attributes=told).end(
                at=ended
            )
        if acted or not _is_whole(snapshot):
            trace.is_over = began - trace.asked > LONGEST
            return
        trace.is_over = True
        told = {**attributes, "pods": len(snapshot.ready), "new": len(trace.ready)}
        self._tracing.start("pods ready", parent=trace.parent, at=trace.asked, attributes=told).end(
            at=began
        )

    def _trace_of(self, snapshot: Snapshot, now: datetime) -> _Open | None:
        notes = snapshot.job["metadata"].get("annotations") or {}
        parent, _, at = str(notes.get(ANNOTATION_TRACE) or "").partition(" ")
        if not parent:
            return None
        known = self._open.get(snapshot.uid)
        if known is not None and known.parent == parent:
            return known
        asked = parse_time(at)
        if asked is None or not TRACEPARENT.fullmatch(parent) or abs(now - asked) > NEWS:
            return None
        self._open.pop(snapshot.uid, None)
        while len(self._open) >= MOST_JOBS:
            del self._open[next(iter(self._open))]
        ready = frozenset(pod.name for pod in snapshot.ready)
        trace = self._open[snapshot.uid] = _Open(parent, asked, ready)
        return trace

    def _tell_ready(
        self, trace: _Open, snapshot: Snapshot, attributes: dict[str, str | int], now: datetime
    ) -> None:
        for pod in snapshot.ready:
            if pod.name in trace.before or pod.name in trace.ready:
                continue
            trace.ready.add(pod.name)
            if len(trace.ready) <= MOST_PODS:
                told = {**attributes, "pod": pod.name, "node": pod.node}
                since = trace.made.get(pod.name, trace.asked)
                self._tracing.start("pod", parent=trace.parent, at=since, attributes=told).end(
                    at=now
                )


def _is_whole(snapshot: Snapshot) -> bool:
    status = snapshot.status
    return status.phase is Phase.RUNNING and len(snapshot.ready) >= len(snapshot.slots)
