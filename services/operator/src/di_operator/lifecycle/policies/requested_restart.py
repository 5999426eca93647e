"""A restart at a user's request: all pods of the job or of a task restart, and no limit counts it.

As with every restart of a whole task, its attempt outdates the pods, and the status has it before
anything is deleted. The same write records the request as handled.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_api.phase import Phase
from di_operator.lifecycle.observed.restart_requests import RestartRequests
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policy import NOTHING, Policy, Report
from di_operator.lifecycle.vocabulary.reasons import Reason


def judge_request(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Restart what users requested since the status was written."""
    tasks = _news(snapshot) - _without_pods(snapshot)
    if not tasks:
        return None
    names = {slot.name for slot in snapshot.slots if slot.task.name in tasks}
    pods = count_of(len(names & snapshot.held.keys()), "pod")
    is_all = tasks.issuperset(task.name for task in snapshot.tasks)
    noun = "task" if len(tasks) == 1 else "tasks"
    whose = "the job" if is_all else f"{noun} {', '.join(sorted(tasks))}"
    what = f"a restart of {whose} was asked for"
    if is_all and RestartRequests.of(snapshot.spec).has_other_code(
        snapshot.status.handled_requests
    ):
        what = "spec.code was changed"
    return Verdict(
        phase=Phase.RESTARTING,
        reason=Reason.RESTART_REQUESTED,
        message=f"{what}, {pods} to replace",
        force_write=True,
        restarted=tasks,
    )


def report_requests(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the handled requests, with those that the transition handles."""
    handled = _handled_requests(snapshot, verdict)
    fields, is_urgent = handled.dump(), handled != snapshot.status.handled_requests
    if not fields and not is_urgent:
        return NOTHING
    return Report(fields={"restartedAt": fields} if fields else {}, is_urgent=is_urgent)


def _handled_requests(snapshot: Snapshot, verdict: Verdict) -> RestartRequests:
    """Return the requests that are handled once the verdict is written, whatever restarts the
    pods.
    """
    handled = snapshot.status.handled_requests
    if not _news(snapshot):
        return handled
    tasks = [task.name for task in snapshot.tasks]
    done = verdict.restarted | _without_pods(snapshot)
    return handled.updated(RestartRequests.of(snapshot.spec).handled_in(done, tasks))


def _news(snapshot: Snapshot) -> frozenset[str]:
    tasks = [task.name for task in snapshot.tasks]
    return RestartRequests.of(snapshot.spec).news(snapshot.status.handled_requests, tasks)


def _without_pods(snapshot: Snapshot) -> frozenset[str]:
    """Return the tasks without pods to restart, because their pods have not been created yet.

    For a job without a status, new or wiped, the handled requests are unknown: running pods are
    kept. In all other phases missing pods existed before or will exist shortly.
    """
    phase = snapshot.status.phase
    if phase is None:
        return frozenset(task.name for task in snapshot.tasks)
    if not phase.is_waiting:
        return frozenset()
    begun = {slot.task.name for slot in snapshot.slots if slot.name in snapshot.held}
    # A task with succeeded pods has started, even if these pods are gone.
    begun |= snapshot.completed_indexes.keys()
    return frozenset(task.name for task in snapshot.tasks if task.name not in begun)


REQUESTED_RESTART: Final = Policy(judge=judge_request, report=report_requests)
