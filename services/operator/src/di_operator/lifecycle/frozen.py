"""A job that runs and whose spec cannot be read: left alone until it can, but for its end.

Which pods it is to have, nobody knows, so none is made and none is deleted. It may have come by
this state through a rollback; going on as it was is the best that can be done for it.
"""

from __future__ import annotations

from datetime import datetime

from di_api.coordinated import coordinator_name, is_coordinated
from di_api.model import Phase
from di_operator.lifecycle.deadline import judge_deadline
from di_operator.lifecycle.pods import Pod, failure_text
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def judge_frozen(snapshot: Snapshot, now: datetime) -> Verdict:
    """Keep the phase, unless what the status knows of the job says that it has ended."""
    if verdict := judge_deadline(snapshot, now):
        return verdict
    # A wiped status says nothing; with pods there, the job has been started.
    phase = snapshot.status.phase or Phase.STARTING
    end = _coordinator_end(snapshot) if is_coordinated(snapshot.job) else _tasks_end(snapshot)
    if end is not None and phase is Phase.RUNNING:
        return end
    return Verdict(phase=phase)


def _coordinator_end(snapshot: Snapshot) -> Verdict | None:
    name = coordinator_name(snapshot.name)
    pod = next((pod for pod in _pods(snapshot) if pod.name == name), None)
    if pod is None or pod.disrupted:
        return None
    if pod.phase == "Succeeded":
        return Verdict(phase=Phase.SUCCEEDED, message="the coordinator succeeded")
    if pod.phase == "Failed":
        message = f"the coordinator failed: {failure_text(pod)}"
        return Verdict(phase=Phase.FAILED, message=message, counted=(pod,))
    return None


def _tasks_end(snapshot: Snapshot) -> Verdict | None:
    pods, wanted = _pods(snapshot), sum((snapshot.status.desired or {}).values())
    if len(pods) != wanted or not all(pod.phase == "Succeeded" for pod in pods):
        return None
    return Verdict(phase=Phase.SUCCEEDED, message=f"{count_of(wanted, 'pod')} succeeded")


def _pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The job's pods: without a spec none of them has a slot."""
    return snapshot.surplus
