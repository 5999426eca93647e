"""Reports nodes of the job that several jobs avoid: the condition NodeSuspect.

It names no other job, because these may be of other namespaces.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.suspect_nodes import avoided_by
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.reasons import Problem

_SHOWN: Final = 3
_SOLVED: Final = Aside(
    type=Problem.NODE_SUSPECT,
    value=False,
    reason="NoNodeSuspect",
    message="no node of the job is avoided by other jobs too",
)
_NONE: Final = Report(conditions=(_SOLVED,))


def report_suspects(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition for the suspect nodes that the job avoids or runs on."""
    suspects = snapshot.suspect_nodes
    if not suspects:
        return _NONE
    avoided = {node for node, until in avoided_by(snapshot.status.raw).items() if now < until}
    own = avoided | {pod.node for pod in snapshot.live}
    found = sorted(own & suspects.keys(), key=lambda node: (-suspects[node], node))
    if not found:
        return _NONE
    told = [f"{node} ({suspects[node]} jobs)" for node in found[:_SHOWN]]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    message = f"avoided by several jobs after failures or checks: {', '.join(told)}{more}"
    reason = "SeveralJobs"
    return Report(
        conditions=(Aside(type=Problem.NODE_SUSPECT, value=True, reason=reason, message=message),)
    )


SUSPECT_NODES: Final = Policy(report=report_suspects)
