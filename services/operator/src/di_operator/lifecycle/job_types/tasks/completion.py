"""The rules for Running and Succeeded: every replica counts, not only the first one.

Replicas of an elastic tier count only while they run.
"""

from __future__ import annotations

from di_api.phase import Phase
from di_operator.lifecycle.observed.pods import is_marked_standby
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.vocabulary.phases import may_follow


def judge_completion(snapshot: Snapshot) -> Verdict | None:
    """Move a job on when all replicas that it needs are ready or have succeeded.

    A job whose pods all succeeded before one was observed as ready is reported as Running first
    (one more write), so that a watcher sees Running on every job that ran.
    """
    elastic = snapshot.elastic
    up = {pod.name for pod in snapshot.ready} | snapshot.done
    if len(up - elastic) < len(snapshot.slots) - len(elastic):
        return None
    total = len(snapshot.awaited)
    phase = snapshot.status.phase
    if may_follow(phase, Phase.RUNNING):
        return Verdict(phase=Phase.RUNNING, message=_running(snapshot))
    if phase is Phase.RUNNING and len(snapshot.done) == total:
        return Verdict(phase=Phase.SUCCEEDED, message=f"{count_of(total, 'pod')} succeeded")
    return None


def end_of_frozen(snapshot: Snapshot) -> Verdict | None:
    """End a job with an unreadable spec when as many pods have succeeded as it had."""
    # Without a spec no pod has a slot, and standby pods are only known by their label.
    pods = [pod for pod in snapshot.surplus if not is_marked_standby(pod)]
    wanted = sum((snapshot.status.desired or {}).values())
    if len(pods) != wanted or not all(pod.phase == "Succeeded" for pod in pods):
        return None
    return Verdict(phase=Phase.SUCCEEDED, message=f"{count_of(wanted, 'pod')} succeeded")


def _running(snapshot: Snapshot) -> str:
    text = f"{count_of(len(snapshot.ready), 'pod')} ready"
    done = len(snapshot.done)
    return f"{text}, {done} succeeded already" if done else text
