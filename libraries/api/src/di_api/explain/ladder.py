"""The ordered steps of an explanation: each looks for one cause, and the first that finds its cause
explains the job.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from di_api.expected_completion import ExpectedCompletion
from di_api.explain.cause import Cause
from di_api.explain.evidence import evidence_of, operator_says
from di_api.explain.explanation import Evidence, Explanation
from di_api.explain.facts import Facts
from di_api.explain.failure_causes import FAILURE_CAUSES, FailureCause, first_failure_cause
from di_api.explain.history import event_signs, past_signs, probe_signs
from di_api.explain.job import Job, text_of
from di_api.explain.log_command import log_command
from di_api.explain.places import any_of_its_kind
from di_api.explain.queued import elsewhere, queued
from di_api.explain.reasons import REASONS
from di_api.explain.signs import Sign, name_of, present_signs
from di_api.phase import Phase
from di_api.timestamps import parse_time
from di_api.wording import span

SILENT_AFTER: Final = 30.0
"""Seconds within which an operator reconciles a new job, however busy it is."""
_ENDS_AT_LIMIT: Final = frozenset({Cause.PROGRAM_FAILED, Cause.CRASH_LOOP})
_NAMES_SHOWN: Final = 5

Step: TypeAlias = Callable[[Job], Explanation | None]


def explain(facts: Facts) -> Explanation:
    """Return why a job is in its state. Never raises, whatever the objects contain."""
    job = Job(facts)
    for step in LADDER:
        if (found := step(job)) is not None:
            return found
    return _unknown(job)


def _no_such_job(job: Job) -> Explanation | None:
    facts = job.facts
    if facts.job is not None:
        return None
    close = difflib.get_close_matches(facts.name, facts.jobs, n=1)
    others = ", ".join(sorted(facts.jobs)[:_NAMES_SHOWN]) or "none"
    remedy = f"did you mean {close[0]}?" if close else "di list -A shows those of all namespaces"
    return Explanation(
        cause=Cause.WRONG_NAME,
        summary=f"there is no job {facts.name} in namespace {facts.namespace}",
        evidence=(Evidence(label="jobs here", text=others),),
        remedy=remedy,
    )


def _being_deleted(job: Job) -> Explanation | None:
    since = parse_time(job.metadata.get("deletionTimestamp"))
    if since is None:
        return None
    return Explanation(
        cause=Cause.BEING_DELETED,
        summary=f"{job.facts.name} is being deleted; its pods have their grace period to end",
        evidence=(Evidence(label="deleted", text="by a user or by its time to live", at=since),),
    )


def _succeeded(job: Job) -> Explanation | None:
    if job.phase is not Phase.SUCCEEDED:
        return None
    return Explanation(
        cause=Cause.SUCCEEDED,
        summary=f"{job.facts.name} has succeeded",
        evidence=operator_says(job),
    )


def _operator_silent(job: Job) -> Explanation | None:
    if job.phase is not None:
        return None
    name = job.facts.name
    if job.age < SILENT_AFTER:
        return Explanation(cause=Cause.STARTING, summary=f"{name} was made a moment ago")
    return Explanation(
        cause=Cause.OPERATOR_SILENT,
        summary=f"no operator has looked at {name}",
        evidence=(Evidence(label="status", text="has no phase"),),
        remedy="tell who runs the cluster: kubectl get pods -A -l app.kubernetes.io/name"
        "=di-orchestrator shows whether di-operator runs, and for which namespaces",
    )


def _pods_refused(job: Job) -> Explanation | None:
    found = job.holds("PodsRefused")
    if found is None or job.phase is not Phase.PENDING:
        return None
    is_invalid = found.reason == "InvalidTemplate"
    return Explanation(
        cause=Cause.INVALID_SPEC if is_invalid else Cause.REFUSED,
        summary=f"{job.facts.name} waits, and the cluster would refuse its pods",
        evidence=(
            Evidence(label="API server", text=found.message, at=found.since),
            *operator_says(job),
        ),
        remedy="correct what the message names (the templates of a job that has never started may "
        "change while it is suspended or queued), or ask who runs the cluster to allow it",
    )


def _suspended(job: Job) -> Explanation | None:
    if job.spec.get("suspend") is not True or job.phase is Phase.FAILED:
        return None
    return Explanation(
        cause=Cause.SUSPENDED,
        summary=f"{job.facts.name} is suspended",
        evidence=operator_says(job),
        remedy=f"di resume {job.facts.name}",
    )


def _hung(job: Job) -> Explanation | None:
    current = job.current
    failed = current is not None and current.reason == "NoProgress"
    hung = job.holds("Hung")
    if hung is None and not failed:
        return None
    told = hung or current
    text = told.message if told else ""
    return Explanation(
        cause=Cause.HUNG,
        summary=f"{job.facts.name} {'failed' if failed else 'hangs'}: the step it reports does "
        "not grow",
        evidence=(
            Evidence(label="operator", text=text, at=told.since if told else None),
            *evidence_of(job, None),
        ),
        remedy=f"di logs {job.facts.name}: see what it waits for; progressPolicy.action can have "
        "it restarted",
    )


def _not_ending(job: Job) -> Explanation | None:
    held = job.holds("PodNotEnding")
    if held is None or job.phase is None or job.phase.is_finished:
        return None
    runs = "runs, but" if job.phase is Phase.RUNNING else "waits:"
    return Explanation(
        cause=Cause.POD_NOT_ENDING,
        summary=f"{job.facts.name} {runs} a pod that was deleted does not end",
        evidence=(Evidence(label="operator", text=held.message, at=held.since),),
        remedy="a finalizer is for its own controller to remove; if the node hangs, restart its "
        "kubelet, or kubectl delete pod --force once you are sure that nothing of it runs",
    )


def _by_reason(job: Job) -> Explanation | None:
    """Return an explanation that the operator's reason for the phase gives alone."""
    current = job.current
    row = REASONS.get(current.reason) if current is not None else None
    if row is None:
        return None
    values = {"job": job.facts.name, "namespace": job.facts.namespace}
    return Explanation(
        cause=row.cause,
        summary=row.summary.format_map(values),
        evidence=operator_says(job),
        remedy=row.remedy.format_map(values),
    )


def _unreadable(job: Job) -> Explanation | None:
    broken = job.holds("SpecInvalid")
    if broken is None or broken.reason != "Unreadable":
        return None
    return Explanation(
        cause=Cause.INVALID_SPEC,
        summary=f"{job.facts.name} is frozen: its spec cannot be read",
        evidence=(Evidence(label="operator", text=broken.message, at=broken.since),),
        remedy="correct the field that is named; the job goes on by itself then",
    )


def _by_probes(job: Job) -> Explanation | None:
    return _by_signs(job, probe_signs(job))


def _by_present_signs(job: Job) -> Explanation | None:
    return _by_signs(job, present_signs(job))


def _by_events(job: Job) -> Explanation | None:
    return _by_signs(job, event_signs(job))


def _waits(job: Job) -> Explanation | None:
    current = job.current
    if current is None or job.phase is None or job.phase.is_finished:
        return None
    name = job.facts.name
    if " waits for task " in current.message:
        return Explanation(
            cause=Cause.DEPENDS_ON,
            summary=f"{name} waits: {current.message}",
            evidence=evidence_of(job, None),
            remedy=f"the tasks named in dependsOn have to be ready first: di describe {name}",
        )
    if current.reason == "ContainerCreating":
        return Explanation(
            cause=Cause.NOT_PREPARED,
            summary=f"{name} does not run: a node has not made a pod's volumes or network ready",
            evidence=evidence_of(job, None),
            remedy="kubectl describe the pod that is named: its events say what is missing",
        )
    if current.reason == "WaitingForNodes" and _was_preempted(job):
        return Explanation(
            cause=Cause.PREEMPTED,
            summary=f"{name} was preempted: jobs that go first have its nodes",
            evidence=operator_says(job),
            remedy="it goes on by itself when there is room; sooner with priority high",
        )
    if current.reason in ("WaitingForNodes", "RefusedByScheduler"):
        return Explanation(
            cause=Cause.QUEUE,
            summary=f"{name} waits for nodes: other jobs have them",
            evidence=operator_says(job),
            remedy="it starts by itself; sooner with priority high, fewer minReplicas, or when "
            "others end (di list -A)",
        )
    return None


def _initializing(job: Job) -> Explanation | None:
    current = job.current
    if current is None or current.reason != "InitContainerRunning":
        return None
    return Explanation(
        cause=Cause.STARTING,
        summary=f"{job.facts.name} does not run yet: an init container is still at work",
        evidence=evidence_of(job, None),
        remedy="kubectl logs with -c shows what the container does that is named",
    )


def _was_preempted(job: Job) -> bool:
    """Return whether the allocator preempted the job, which it records in an Event."""
    return any(
        text_of(event.get("message")).startswith("preempted, ") for event in job.facts.events
    )


def _operator_failed(job: Job) -> Explanation | None:
    found = job.holds("ReconcileFailed")
    if found is None:
        return None
    return Explanation(
        cause=Cause.OPERATOR_FAILED,
        summary=f"the operator fails on {job.facts.name} by a defect of its own",
        evidence=(Evidence(label="operator", text=found.message, at=found.since),),
        remedy="report it with the job's manifest; it tries again by itself",
    )


def _moved_or_restarted(job: Job) -> Explanation | None:
    """Explain a job that runs now, and was restarted or moved before."""
    live = job.phase is not None and not job.phase.is_finished
    if not live or not job.count("restarts") + job.count("reschedules"):
        return None
    return _by_signs(job, past_signs(job), was=True)


def _under_way(job: Job) -> Explanation | None:
    phase, name = job.phase, job.facts.name
    if phase is None or phase.is_finished or phase.is_waiting:
        return None
    cause = {Phase.RUNNING: Cause.RUNNING, Phase.RESCHEDULING: Cause.SCALED}
    text = "runs" if phase is Phase.RUNNING else f"is {phase.value}"
    return Explanation(
        cause=cause.get(phase, Cause.STARTING),
        summary=f"{name} {text}: nothing keeps it from going on",
        evidence=(*evidence_of(job, None), *_asked(job), *_end_to_come(job)),
    )


def _asked(job: Job) -> Iterator[Evidence]:
    """Yield the user's restart request, if it is the last thing that happened."""
    last = job.condition(Phase.RESTARTING.value)
    if last is not None and last.reason == "RestartRequested":
        yield Evidence(label="restarted", text=last.message, at=last.since)


def _end_to_come(job: Job) -> tuple[Evidence, ...]:
    found = ExpectedCompletion.read(job.status.get("expectedCompletion"))
    if found is None or found.latest < job.facts.now:
        return ()
    left, soonest, longest = (
        span((moment - job.facts.now).total_seconds())
        for moment in (found.expected, found.earliest, found.latest)
    )
    text = f"expected in about {left}, in four of five cases in {soonest} to {longest}"
    return (Evidence(label="ends", text=text),)


LADDER: Final[tuple[Step, ...]] = (
    _no_such_job,
    _being_deleted,
    _succeeded,
    _operator_silent,
    _pods_refused,
    queued,
    elsewhere,
    _suspended,
    _hung,
    _unreadable,
    _by_reason,
    _not_ending,
    _by_probes,
    _by_present_signs,
    _by_events,
    _initializing,
    _waits,
    _operator_failed,
    _moved_or_restarted,
    _under_way,
)


def _by_signs(job: Job, signs: tuple[Sign, ...], *, was: bool = False) -> Explanation | None:
    found = first_failure_cause(signs)
    if found is None:
        return None
    kind, sign = _by_its_nodes(job, *found)
    values = _values(job, sign)
    what = kind.summary.format_map(values)
    return Explanation(
        cause=_cause(job, kind),
        summary=f"{_state(job, was=was)}: {what}",
        evidence=evidence_of(job, sign),
        remedy=kind.remedy.format_map(values),
    )


def _by_its_nodes(job: Job, kind: FailureCause, sign: Sign) -> tuple[FailureCause, Sign]:
    """Ignore the taint of nodes that would not fit the pod without it either."""
    pod = next((each for each in job.facts.pods if name_of(each) == sign.pod), None)
    if kind.cause is not Cause.TAINT or pod is None or not job.facts.nodes:
        return kind, sign
    if any_of_its_kind(pod, job.facts.nodes):
        return kind, sign
    return next(each for each in FAILURE_CAUSES if each.cause is Cause.NO_SUCH_NODE), sign


def _cause(job: Job, kind: FailureCause) -> Cause:
    if job.phase is not Phase.FAILED or kind.cause not in _ENDS_AT_LIMIT:
        return kind.cause
    current = job.current
    rule = current is not None and current.reason == "PodFailurePolicy"
    return Cause.FAILURE_RULE if rule else Cause.BACKOFF_LIMIT


def _state(job: Job, *, was: bool) -> str:
    name, restarts = job.facts.name, job.count("restarts")
    if was:
        times = restarts + job.count("reschedules")
        again = "once" if times == 1 else f"{times} times"
        running = (
            "runs" if job.phase is Phase.RUNNING else f"is {job.phase.value if job.phase else ''}"
        )
        return f"{name} {running}, after it was restarted or moved {again}"
    if job.phase is Phase.FAILED:
        again = "once" if restarts == 1 else f"{restarts} times"
        return f"{name} failed after it was restarted {again}" if restarts else f"{name} failed"
    if job.phase is Phase.RUNNING:
        return f"{name} runs, but not all of it"
    return f"{name} does not run"


def _values(job: Job, sign: Sign) -> dict[str, str]:
    return {
        "job": job.facts.name,
        "namespace": job.facts.namespace,
        "pod": sign.pod or "a pod",
        "node": sign.node or _node_in(sign.text) or "of a pod",
        "container": sign.container or "di-container",
        "logs": log_command(job, sign),
    }


def _node_in(text: str) -> str:
    """Return the node that an Event names, as in "Node gpu-1 is not ready"."""
    words = text.split()
    return words[words.index("node") + 1].rstrip(",") if "node" in words[:-1] else ""


def _unknown(job: Job) -> Explanation:
    current = job.current
    phase = job.phase.value if job.phase else text_of(job.status.get("phase"))
    told = current.message if current else ""
    return Explanation(
        cause=Cause.PENDING_TIMEOUT
        if current is not None and current.reason == "PendingTimeout"
        else Cause.UNKNOWN,
        summary=f"{job.facts.name} is {phase}{': ' if told else ''}{told}",
        evidence=evidence_of(job, None),
        remedy=f"di describe {job.facts.name}, di events {job.facts.name}",
    )
