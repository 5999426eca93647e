"""A restart that was asked for: all pods of the job, or of a task, begin anew, and nothing counts.

As with every restart of a whole task the pods are outdated by its attempt, which the status has
before anything is deleted; what was asked for is noted as heeded in the same write.
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
    """Begin anew what somebody asked for since the status was written."""
    tasks = _news(snapshot) - _without_pods(snapshot)
    if not tasks:
        return None
    names = {slot.name for slot in snapshot.slots if slot.task.name in tasks}
    pods = count_of(len(names & snapshot.held.keys()), "pod")
    is_all = tasks.issuperset(task.name for task in snapshot.tasks)
    noun = "task" if len(tasks) == 1 else "tasks"
    whose = "the job" if is_all else f"{noun} {', '.join(sorted(tasks))}"
    return Verdict(
        phase=Phase.RESTARTING,
        reason=Reason.RESTART_REQUESTED,
        message=f"a restart of {whose} was asked for, {pods} to replace",
        insist=True,
        restarted=tasks,
    )


def report_requests(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """The requests that were handled, with those that the transition handles."""
    handled = _handled_requests(snapshot, verdict)
    fields, is_urgent = handled.dump(), handled != snapshot.status.heeded
    if not fields and not is_urgent:
        return NOTHING
    return Report(fields={"restartedAt": fields} if fields else {}, is_urgent=is_urgent)


def _handled_requests(snapshot: Snapshot, verdict: Verdict) -> RestartRequests:
    """Those that are heeded once the verdict is written: by whatever makes their pods anew."""
    heeded = snapshot.status.heeded
    if not _news(snapshot):
        return heeded
    tasks = [task.name for task in snapshot.tasks]
    done = verdict.restarted | _without_pods(snapshot)
    return heeded.updated(RestartRequests.of(snapshot.spec).heeded_in(done, tasks))


def _news(snapshot: Snapshot) -> frozenset[str]:
    tasks = [task.name for task in snapshot.tasks]
    return RestartRequests.of(snapshot.spec).news(snapshot.status.heeded, tasks)


def _without_pods(snapshot: Snapshot) -> frozenset[str]:
    """Tasks that have nothing to begin anew, since their pods are still to be made.

    Of a job without a status, new or wiped, nobody knows what was heeded: what runs goes on. In
    other phases pods that are not there were there, or will be in a moment.
    """
    phase = snapshot.status.phase
    if phase is None:
        return frozenset(task.name for task in snapshot.tasks)
    if not phase.is_waiting:
        return frozenset()
    begun = {slot.task.name for slot in snapshot.slots if slot.name in snapshot.held}
    # Those of which some have succeeded have begun, whether or not their pods are there.
    begun |= snapshot.completed_indexes.keys()
    return frozenset(task.name for task in snapshot.tasks if task.name not in begun)


REQUESTED_RESTART: Final = Policy(judge=judge_request, report=report_requests)
