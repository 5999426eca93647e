"""What is wrong with a job without deciding its phase: told in a condition beside those of phases.

A problem is True for as long as decisions find it and turns False with the first that does not.
It is announced by one Warning event when it appears, or appears for another reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from di_api.group_status import GroupState
from di_api.wording import describe
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policies.node_checks import Finding, wrong_nodes
from di_operator.lifecycle.policies.process_groups import least_members
from di_operator.lifecycle.policies.progress import is_undecided, progress_problems
from di_operator.lifecycle.policies.unknown_targets import unknown_targets
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason

REASON_REFUSED: Final = "RulesBroken"
REASON_UNREADABLE: Final = "Unreadable"
REASON_DEADLINE: Final = "DeadlinePassed"

_SOLVED: Final = {
    problem: Aside(type=problem, value=False, reason=reason, message=message)
    for problem, (reason, message) in {
        Problem.SPEC_INVALID: ("SpecValid", "nothing is wrong with the spec any more"),
        Problem.NOT_ALLOCATABLE: ("Allocatable", "the allocator can read the job"),
        Problem.INSUFFICIENT_REPLICAS: ("EnoughReplicas", "no process group is short of members"),
        Problem.NODE_CHECK_FAILED: ("NodesChecked", "no node of the job is slow by its checks"),
        Problem.HUNG: ("Progressing", "its step grows again, or its pods have begun anew"),
        Problem.NO_SIGNAL: ("Reporting", "a step was reported, or its pods have begun anew"),
        Problem.REPORT_REJECTED: ("ReportTaken", "the last report makes sense"),
        Problem.NOTIFY_TARGET_UNKNOWN: ("TargetsKnown", "all whom the job names can be told"),
        Problem.RECONCILE_FAILED: ("ReconcileSucceeded", "the operator can act on the job"),
    }.items()
}
"""What the condition says once the problem is gone. Every problem has a line here."""

_OF_PROGRESS: Final = (Problem.HUNG, Problem.NO_SIGNAL)
_GOES_ON = "the job goes on by what could be read: "
_FROZEN = "nothing of the job is created or deleted until its spec can be read: "


def problems_of(
    snapshot: Snapshot, nodes: Sequence[Finding | None], now: datetime
) -> tuple[tuple[Aside, ...], list[JobEvent]]:
    """Return what the conditions of all problems are to say about a job that has not ended.

    With it goes a Warning for each problem that the job's conditions do not tell of yet. `nodes` is
    what the checks of its nodes have found.
    """
    problems = (
        *_spec_problems(snapshot),
        *_allocation_problems(snapshot),
        *_group_problems(snapshot),
        *_node_problems(snapshot, nodes),
        *progress_problems(snapshot, now),
        *unknown_targets(snapshot),
    )
    found = {
        problem: Aside(type=problem, value=True, reason=reason, message=message)
        for problem, reason, message in problems
    }
    kept = _OF_PROGRESS if is_undecided(snapshot) else ()
    asides = tuple([each for problem, each in (_SOLVED | found).items() if problem not in kept])
    warnings = [
        JobEvent(reason=problem, message=aside.message)
        for problem, aside in found.items()
        if aside.is_news(snapshot.status.conditions)
    ]
    return asides, warnings


def defect(error: Exception) -> Aside:
    """Return the condition of a job that the operator failed on by a mistake of its own.

    It turns False with the next decision about the job, as those of problems do.
    """
    what = describe(error)
    message = f"the operator cannot act on this job and tries again ({what}); other jobs go on"
    reason = type(error).__name__
    return Aside(type=Problem.RECONCILE_FAILED, value=True, reason=reason, message=message)


def _spec_problems(snapshot: Snapshot) -> Iterator[tuple[Problem, str, str]]:
    # A job that was not started is Failed for it, and needs no second word.
    if not snapshot.errors or not snapshot.has_started:
        return
    reason = REASON_UNREADABLE if snapshot.is_frozen else REASON_REFUSED
    before = _FROZEN if snapshot.is_frozen else _GOES_ON
    errors = "; ".join(str(error) for error in snapshot.errors)
    yield Problem.SPEC_INVALID, reason, before + errors


def _allocation_problems(snapshot: Snapshot) -> Iterator[tuple[Problem, str, str]]:
    grant = snapshot.grant
    if grant is not None and grant.reason is Reason.NOT_ALLOCATABLE:
        yield Problem.NOT_ALLOCATABLE, REASON_UNREADABLE, grant.message


def _group_problems(snapshot: Snapshot) -> Iterator[tuple[Problem, str, str]]:
    short = [
        (task, group)
        for task, group in snapshot.status.groups.items()
        if group.state is GroupState.INSUFFICIENT
    ]
    if short:
        task, group = short[0]
        wanted = snapshot.desired
        least = (least_members(each, wanted[task]) for each in snapshot.tasks if each.name == task)
        message = (
            f"the process group of task {task} had {len(group.members)} of at least "
            f"{next(least, 1)} "
            "members when its time was up; it waits for more"
        )
        yield Problem.INSUFFICIENT_REPLICAS, REASON_DEADLINE, message


def _node_problems(
    snapshot: Snapshot, nodes: Sequence[Finding | None]
) -> Iterator[tuple[Problem, str, str]]:
    problem = Problem.NODE_CHECK_FAILED
    told = snapshot.status.conditions.get(problem)
    if wrong := wrong_nodes(nodes):
        yield problem, *wrong
    elif told is not None and told["status"] == "True" and None in nodes:
        # A pod is being replaced: what was said stays until all have told again.
        yield problem, told["reason"], told["message"]
