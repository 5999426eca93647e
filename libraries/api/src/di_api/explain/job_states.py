"""Steps of an explanation about the job as a whole: deleted, ended, suspended, under way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from di_api.expected_completion import ExpectedCompletion
from di_api.explain.cause import Cause
from di_api.explain.evidence import evidence_of, operator_says
from di_api.explain.explanation import Evidence, Explanation
from di_api.explain.facts import name_of, text_of, uid_of
from di_api.explain.history import kills
from di_api.explain.job import Condition, Job
from di_api.explain.messages import one_line
from di_api.explain.pod_counts import PodCounts, count_pods, pods
from di_api.explain.suspender import suspender
from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.pods.main_container import main_end
from di_api.timestamps import last_seen, parse_time
from di_api.wording import span

SILENT_AFTER: Final = 30.0
"""Seconds within which an operator reconciles a job, however busy it is."""
UNREPORTED_AFTER: Final = 600.0
"""Seconds after which a program that reported before counts as silent, as for its expected end."""
_OF_KUBERNETES: Final = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers that the garbage collector removes once the pods are gone."""
_SUCCESS: Final = "SuccessCriteriaMet"
_OPERATOR: Final = (
    "report it to the cluster's administrators; see whether di-operator runs, and for which "
    "namespaces: kubectl get pods -A -l app.kubernetes.io/name=di-orchestrator"
)


def being_deleted(job: Job) -> Explanation | None:
    """Explain that a job is being deleted, and what it still waits for."""
    since = parse_time(job.metadata.get("deletionTimestamp"))
    if since is None:
        return None
    name, left = job.facts.name, len(job.facts.pods)
    held = [
        each
        for each in map(text_of, items(job.metadata.get("finalizers")))
        if each and each not in _OF_KUBERNETES
    ]
    what, remedy = f"{name} is being deleted", ""
    if held:
        noun = "finalizer" if len(held) == 1 else "finalizers"
        what = f"{what}, and held by {noun} {', '.join(held)}"
        remedy = "a finalizer is for its own controller to remove: see whether that controller runs"
        what += f"; {pods(left)} of it still end" if left else ""
    elif left:
        have = "has its" if left == 1 else "have their"
        what = f"{what}: {pods(left)} {have} grace period to end"
    return Explanation(
        cause=Cause.BEING_DELETED,
        summary=what,
        evidence=(Evidence(label="deleted", text="by a user or by its time to live", at=since),),
        remedy=remedy,
    )


def succeeded(job: Job) -> Explanation | None:
    """Explain that a job has succeeded, or is about to: which program ended, and after how long."""
    met = job.holds(_SUCCESS)
    is_over = job.phase is Phase.SUCCEEDED
    if not is_over and (met is None or job.phase is None or job.phase.is_finished):
        return None
    name = job.facts.name
    if (found := _killed(job)) is not None:
        return found
    state = "has succeeded" if is_over else "ends as Succeeded"
    told = "" if is_over or met is None else one_line(met.message)
    parts = [each for each in (_end_of_program(job), told) if each]
    return Explanation(
        cause=Cause.SUCCEEDED,
        summary=f"{name} {state}{': ' if parts else ''}{'; '.join(parts)}",
        evidence=operator_says(job),
    )


def _killed(job: Job) -> Explanation | None:
    """Explain that a program that ended with exit code 0 was killed for its probe."""
    for pod in job.facts.pods:
        ended = main_end(pod)
        observations = (
            kills(job, uid_of(pod)) if ended is not None and not ended.get("exitCode") else ()
        )
        if observations:
            return Explanation(
                cause=Cause.PROBE,
                summary=f"{job.facts.name} counts as succeeded, but the node ended "
                f"{name_of(pod)} for its probe: {one_line(observations[0].text)}",
                evidence=evidence_of(job, observations[0]),
                remedy="correct the probe, or give the program more time (startupProbe, "
                "failureThreshold); a program that is stopped early must not exit with 0",
            )
    return None


def _end_of_program(job: Job) -> str:
    """Return which pod's program ended last with exit code 0, and how long it had run."""
    ends: list[tuple[datetime, str, str]] = []
    for pod in job.facts.pods:
        ended = main_end(pod) or {}
        end = parse_time(ended.get("finishedAt"))
        if ended.get("exitCode") == 0 and end is not None:
            ends.append((end, name_of(pod), _after(parse_time(ended.get("startedAt")), end)))
    if not ends:
        return one_line(job.current.message) if job.current is not None else ""
    _, name, after = max(ends)
    return f"{name} ended with exit code 0{after}"


def _after(start: datetime | None, end: datetime) -> str:
    if start is None:
        return ""
    ran = (end - start).total_seconds()
    return f" after {span(ran)}" if ran >= 1 else " after less than a second"


def suspended(job: Job) -> Explanation | None:
    """Explain that a job is suspended, since when, and by whom as far as that is known."""
    if job.spec.get("suspend") is not True or job.phase is Phase.FAILED:
        return None
    since = _since(job.holds("Suspended")) or _since(job.current)
    idle = job.holds("Idle")
    ago = f" for {span((job.facts.now - since).total_seconds())}" if since is not None else ""
    if idle is not None and idle.reason == "SuspendedByPolicy":
        return Explanation(
            cause=Cause.SUSPENDED,
            summary=f"{job.facts.name} is suspended{ago} by its idlePolicy: "
            f"{one_line(idle.message)}",
            evidence=(
                Evidence(label="operator", text=idle.message, at=idle.since),
                *operator_says(job),
            ),
            remedy=f"see what its learners waited for, then di resume {job.facts.name}",
        )
    return Explanation(
        cause=Cause.SUSPENDED,
        summary=f"{job.facts.name} is suspended{ago}{suspender(mapping(job.facts.job), since)}",
        evidence=operator_says(job),
        remedy=f"di resume {job.facts.name}",
    )


def operator_silent(job: Job) -> Explanation | None:
    """Explain that no operator acts on a job: it has no phase, or all of its pods are gone."""
    name, phase = job.facts.name, job.phase
    if phase is None:
        if job.age < SILENT_AFTER:
            return Explanation(cause=Cause.STARTING, summary=f"{name} was made a moment ago")
        what, text = f"no operator has looked at {name}", "has no phase"
    else:
        wanted = job.count("replicas")
        is_read = "pods" not in job.facts.unread
        if phase.is_finished or phase.is_waiting or not wanted or job.facts.pods or not is_read:
            return None
        if _quiet_for(job) < SILENT_AFTER:
            return None
        what = (
            f"{name} is {phase.value} by its status, but none of its {pods(wanted)} exists: no "
            "operator is at work"
        )
        text = f"has been {phase.value} with {pods(wanted)}"
    return Explanation(
        cause=Cause.OPERATOR_SILENT,
        summary=what,
        evidence=(Evidence(label="status", text=text, at=_since(job.current)),),
        remedy=_OPERATOR,
    )


def _quiet_for(job: Job) -> float:
    """Return the seconds since anything was last recorded about a job."""
    times = [each.since for each in job.conditions()]
    times += [last_seen(event) for event in job.facts.events]
    newest = max((each for each in times if each is not None), default=None)
    return (job.facts.now - newest).total_seconds() if newest is not None else SILENT_AFTER


def under_way(job: Job) -> Explanation | None:
    """Explain a job about which no cause was found, by what its pods and its reports show."""
    phase, name = job.phase, job.facts.name
    if phase is None or phase.is_finished or phase.is_waiting:
        return None
    cause = {Phase.RUNNING: Cause.RUNNING, Phase.RESCHEDULING: Cause.SCALED}
    text = "runs" if phase is Phase.RUNNING else f"is {phase.value}"
    counts = count_pods(job)
    found, summary, remedy = cause.get(phase, Cause.STARTING), "", ""
    if "pods" in job.facts.unread:
        summary = f"{name} {text} by its status; its pods cannot be read, so no more is known"
        remedy = "ask for the right to list pods in the namespace: kubectl auth can-i list pods"
    elif not counts.are_all_well or not counts.wanted:
        but = ", but not all of it" if phase is Phase.RUNNING else ""
        summary = f"{name} {text}{but}: {counts.text()}"
    elif phase is not Phase.RUNNING:
        summary = f"{name} {text}: {_all(counts)} ready, the operator notes it next"
    else:
        found, summary, remedy = _by_reports(job, counts)
    return Explanation(
        cause=found,
        summary=summary,
        evidence=(*evidence_of(job, None), *_asked(job), *_end_to_come(job)),
        remedy=remedy,
    )


def _by_reports(job: Job, counts: PodCounts) -> tuple[Cause, str, str]:
    """Return cause, summary and remedy for a job whose pods are all ready."""
    name, dropped = job.facts.name, job.holds("ReportRejected")
    if dropped is not None:
        return (
            Cause.NOT_REPORTING,
            f"{name} runs and {_all(counts)} ready, but {one_line(dropped.message)}",
            "correct the report: docs/reference/rest.md has its fields",
        )
    at = parse_time(mapping(job.status.get("progress")).get("reportedAt"))
    if at is None:
        return (
            Cause.RUNNING,
            f"{name} runs: {_all(counts)} ready; its program has reported no step",
            "",
        )
    silent = (job.facts.now - at).total_seconds()
    if silent > UNREPORTED_AFTER:
        return (
            Cause.NOT_REPORTING,
            f"{name} runs and {_all(counts)} ready, but its last report is {span(silent)} old",
            f"di logs {name}: see what the program waits for",
        )
    return (
        Cause.RUNNING,
        f"{name} runs: nothing keeps it from going on ({_all(counts)} ready, last report "
        f"{span(silent)} ago)",
        "",
    )


def _all(counts: PodCounts) -> str:
    if counts.wanted == 1:
        return "its pod is"
    return f"all {counts.wanted} pods are"


def _asked(job: Job) -> Iterator[Evidence]:
    """Yield the user's restart request, if it is the last thing that happened."""
    last = job.condition(Phase.RESTARTING.value)
    if last is not None and last.reason == "RestartRequested":
        yield Evidence(label="restarted", text=last.message, at=last.since)


def _end_to_come(job: Job) -> tuple[Evidence, ...]:
    found = ExpectedCompletion.read(job.status.get("expectedCompletion"))
    seconds = found.left(job.facts.now) if found is not None else None
    if seconds is None:
        return ()
    soonest, left, longest = map(span, seconds)
    text = f"expected in about {left}, in four of five cases in {soonest} to {longest}"
    return (Evidence(label="ends", text=text),)


def _since(found: Condition | None) -> datetime | None:
    return found.since if found is not None else None
