"""When a job runs and when it has succeeded: every replica counts, not only a first one."""

from __future__ import annotations

from di_api.model import Phase
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def judge_completion(snapshot: Snapshot) -> Verdict | None:
    """Move a job on whose replicas, all of them, are ready or have succeeded.

    A job whose pods all succeeded before anybody saw them ready is reported as Running first
    (one write more), so that a watcher sees Running on every job that ran.
    """
    total = len(snapshot.slots)
    if len(snapshot.ready) + len(snapshot.succeeded) < total:
        return None
    if snapshot.status.phase in (Phase.STARTING, None):
        return Verdict(phase=Phase.RUNNING, message=_running(snapshot))
    if snapshot.status.phase is Phase.RUNNING and len(snapshot.succeeded) == total:
        return Verdict(phase=Phase.SUCCEEDED, message=f"{count_of(total, 'pod')} succeeded")
    return None


def _running(snapshot: Snapshot) -> str:
    text = f"{count_of(len(snapshot.ready), 'pod')} ready"
    done = len(snapshot.succeeded)
    return f"{text}, {done} succeeded already" if done else text
