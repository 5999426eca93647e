"""The ordered steps of an explanation: each looks for one cause, and the first that finds its cause
explains the job.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from di_api.explain.cause import Cause
from di_api.explain.claims import unbound_claim
from di_api.explain.evidence import evidence_of, operator_says
from di_api.explain.explanation import Evidence, Explanation
from di_api.explain.facts import Facts, name_of, text_of
from di_api.explain.failure_causes import FAILURE_CAUSES, FailureCause, first_failure_cause
from di_api.explain.history import pull_error
from di_api.explain.job import Job
from di_api.explain.job_states import (
    being_deleted,
    operator_silent,
    succeeded,
    suspended,
    under_way,
)
from di_api.explain.limit_ranges import limit_range_of
from di_api.explain.log_command import log_command
from di_api.explain.messages import of_operator, one_line, own_message
from di_api.explain.observations import Observation, Source
from di_api.explain.observed_job import ObservedJob
from di_api.explain.places import any_of_its_kind, can_take, cordoned, cordoned_text
from di_api.explain.program_end import program_end
from di_api.explain.queued import elsewhere, queued
from di_api.explain.reasons import REASONS
from di_api.field_error import items, mapping
from di_api.names import DI_CONTAINER
from di_api.phase import Phase

_ENDS_AT_LIMIT: Final = frozenset({Cause.PROGRAM_FAILED, Cause.CRASH_LOOP})
_REFUSALS: Final = frozenset(
    {Cause.REFUSED, Cause.QUOTA, Cause.WEBHOOK_DOWN, Cause.SERVICE_ACCOUNT, Cause.INVALID_SPEC}
)
"""Causes of which the first line has the whole message of the API server."""
_WHOLE: Final = 1 << 14
_OF_NODES: Final = frozenset({Cause.TAINT, Cause.CORDONED, Cause.NO_SUCH_NODE})
_NAMES_SHOWN: Final = 5

Step: TypeAlias = Callable[[ObservedJob], Explanation | None]


def explain(facts: Facts) -> Explanation:
    """Return why a job is in its state. Never raises, whatever the objects contain."""
    job = ObservedJob(facts)
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
    remedy = f"did you mean {close[0]}?" if close else "those of all namespaces: di list -A"
    return Explanation(
        cause=Cause.WRONG_NAME,
        summary=f"there is no job {facts.name} in namespace {facts.namespace}",
        evidence=(Evidence(label="jobs here", text=others),),
        remedy=remedy,
    )


def _pods_refused(job: Job) -> Explanation | None:
    found = job.holds("PodsRefused")
    if found is None or job.phase is not Phase.PENDING:
        return None
    is_invalid = found.reason == "InvalidTemplate"
    told = one_line(found.message, len(found.message))
    return Explanation(
        cause=Cause.INVALID_SPEC if is_invalid else Cause.REFUSED,
        summary=_with(f"{job.facts.name} waits, and the cluster would refuse its pods", told),
        evidence=(
            Evidence(label="API server", text=found.message, at=found.since),
            *operator_says(job),
        ),
        remedy="correct what the message names (the templates of a job that has never started may "
        "change while it is suspended or queued), or ask who runs the cluster to allow it",
    )


def _hung(job: Job) -> Explanation | None:
    current = job.current
    failed = current is not None and current.reason == "NoProgress"
    hung = job.holds("Hung")
    if hung is None and not failed:
        return None
    told = hung or current
    text = told.message if told else ""
    state = f"{job.facts.name} {'failed' if failed else 'hangs'}: the step it reports does not grow"
    return Explanation(
        cause=Cause.HUNG,
        summary=_with(state, one_line(text)),
        evidence=(
            Evidence(label="operator", text=text, at=told.since if told else None),
            *evidence_of(job, None),
        ),
        remedy=f"di logs {job.facts.name}: see what it waits for; progressPolicy.action can have "
        "it restarted",
    )


def _silent(job: Job) -> Explanation | None:
    silent = job.holds("MemberSilent")
    if silent is None or job.phase is not Phase.RUNNING:
        return None
    return Explanation(
        cause=Cause.MEMBER_SILENT,
        summary=_with(f"{job.facts.name} runs, but a pod does not go on", one_line(silent.message)),
        evidence=(Evidence(label="operator", text=silent.message, at=silent.since),),
        remedy=f"di logs {job.facts.name}: see what its program does; if it hangs, kubectl delete "
        "pod has the pod replaced",
    )


def _idle(job: Job) -> Explanation | None:
    idle = job.holds("Idle")
    if idle is None or job.phase is not Phase.RUNNING:
        return None
    return Explanation(
        cause=Cause.IDLE,
        summary=_with(f"{job.facts.name} runs, but its learners wait", one_line(idle.message)),
        evidence=(Evidence(label="operator", text=idle.message, at=idle.since),),
        remedy="see what they wait for: more collectors, faster environments or fewer learners "
        f"(di top {job.facts.name}); until then di suspend {job.facts.name} frees its nodes",
    )


def _not_ending(job: Job) -> Explanation | None:
    held = job.holds("PodNotEnding")
    if held is None or job.phase is None or job.phase.is_finished:
        return None
    runs = "runs, but" if job.phase is Phase.RUNNING else "waits:"
    return Explanation(
        cause=Cause.POD_NOT_ENDING,
        summary=_with(
            f"{job.facts.name} {runs} a pod that was deleted does not end",
            one_line(held.message),
        ),
        evidence=(Evidence(label="operator", text=held.message, at=held.since),),
        remedy="a finalizer is for its own controller to remove; if the node hangs, restart its "
        "kubelet, or kubectl delete pod --force once you are sure that nothing of it runs",
    )


def _by_reason(job: Job) -> Explanation | None:
    """Return an explanation that the operator's reason for the phase gives alone."""
    current = job.current
    row = REASONS.get(current.reason) if current is not None else None
    if row is None or current is None:
        return None
    values = {"job": job.facts.name, "namespace": job.facts.namespace}
    return Explanation(
        cause=row.cause,
        summary=_with(row.summary.format_map(values), one_line(current.message, _WHOLE)),
        evidence=operator_says(job),
        remedy=row.remedy.format_map(values),
    )


def _unreadable(job: Job) -> Explanation | None:
    broken = job.holds("SpecInvalid")
    if broken is None or broken.reason != "Unreadable":
        return None
    return Explanation(
        cause=Cause.INVALID_SPEC,
        summary=_with(
            f"{job.facts.name} is frozen: its spec cannot be read", one_line(broken.message)
        ),
        evidence=(Evidence(label="operator", text=broken.message, at=broken.since),),
        remedy="correct the field that is named; the job goes on by itself then",
    )


def _by_probes(job: ObservedJob) -> Explanation | None:
    return _by_observations(job, job.probes)


def _by_present(job: ObservedJob) -> Explanation | None:
    return _by_observations(job, job.present)


def _by_events(job: ObservedJob) -> Explanation | None:
    return _by_observations(job, job.events)


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
            summary=_with(
                f"{name} does not run: a node has not made a pod's volumes or network ready",
                one_line(current.message),
            ),
            evidence=evidence_of(job, None),
            remedy="kubectl describe the pod that is named: its events say what is missing",
        )
    if current.reason == "WaitingForNodes" and _was_preempted(job):
        return Explanation(
            cause=Cause.PREEMPTED,
            summary=_with(
                f"{name} was preempted: jobs that go first have its nodes",
                one_line(current.message),
            ),
            evidence=operator_says(job),
            remedy="it goes on by itself when there is room; sooner with priority high",
        )
    if current.reason in ("WaitingForNodes", "RefusedByScheduler"):
        return Explanation(
            cause=Cause.QUEUE,
            summary=_with(
                f"{name} waits for nodes: other jobs have them", one_line(current.message)
            ),
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
        summary=_with(
            f"{job.facts.name} does not run yet: an init container is still at work",
            one_line(of_operator(current.message)),
        ),
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
        summary=_with(
            f"the operator fails on {job.facts.name} by a defect of its own",
            one_line(found.message),
        ),
        evidence=(Evidence(label="operator", text=found.message, at=found.since),),
        remedy="report it with the job's manifest; it tries again by itself",
    )


def _moved_or_restarted(job: ObservedJob) -> Explanation | None:
    """Explain a job that runs now, and was restarted or moved before."""
    live = job.phase is not None and not job.phase.is_finished
    if not live or not job.count("restarts") + job.count("reschedules"):
        return None
    return _by_observations(job, job.past, was=True)


def _killed_in_place(job: ObservedJob) -> Explanation | None:
    """Explain a job that runs, and a container of which was restarted for its probe."""
    if job.phase is not Phase.RUNNING or not job.kills_in_place:
        return None
    found = _by_observations(job, job.kills_in_place)
    if found is None:
        return None
    what = f"{job.facts.name} runs, after a container of it was restarted"
    _, _, cause = found.summary.partition(": ")
    return replace(found, summary=f"{what}: {cause}")


LADDER: Final[tuple[Step, ...]] = (
    _no_such_job,
    being_deleted,
    succeeded,
    operator_silent,
    _pods_refused,
    queued,
    elsewhere,
    suspended,
    _hung,
    _unreadable,
    _by_reason,
    _not_ending,
    _silent,
    _by_probes,
    _by_present,
    _by_events,
    _initializing,
    _waits,
    _operator_failed,
    _moved_or_restarted,
    _killed_in_place,
    _idle,
    under_way,
)


def _by_observations(
    job: Job, observations: tuple[Observation, ...], *, was: bool = False
) -> Explanation | None:
    found = first_failure_cause(observations)
    if found is None:
        return None
    kind, seen = _by_its_nodes(job, *found)
    if kind.cause is Cause.NO_ROOM and (waits := _waits(job)) is not None:
        # The operator knows that the nodes could run the job: its advice is not to add some.
        return waits
    values = _values(job, seen)
    what, remedy = kind.summary.format_map(values), kind.remedy.format_map(values)
    if kind.is_program or seen.source is Source.LOG:
        end = program_end(job, seen, observations)
        what, remedy = end.summary(what), end.remedy(remedy)
    else:
        if seen.container not in ("", DI_CONTAINER) and seen.container not in what:
            what = f"{what} (container {seen.container})"
        what = _with(what, _message(job, kind, seen))
    return Explanation(
        cause=_cause(job, kind),
        summary=f"{_state(job, was=was)}: {what}",
        evidence=evidence_of(job, seen),
        remedy=remedy,
    )


def _message(job: Job, kind: FailureCause, seen: Observation) -> str:
    """Return the message that the first line shows with a cause: that of the object itself."""
    if kind.cause in _REFUSALS:
        return one_line(of_operator(seen.text), _WHOLE)
    if kind.cause is Cause.VOLUME and (claim := unbound_claim(job, seen.pod)):
        return claim
    if kind.cause is Cause.IMAGE and (pull := pull_error(job, seen)):
        return pull
    if kind.cause is Cause.OUT_OF_MEMORY:
        return _memory(job, seen)
    return own_message(seen)


def _memory(job: Job, seen: Observation) -> str:
    """Return the limit at which a container was killed for its memory."""
    current = job.current
    if current is not None and current.reason == "OOMLimit":
        return one_line(current.message.partition(";")[0])
    spec = mapping(mapping(job.pod(seen.pod)).get("spec"))
    for container in map(mapping, items(spec.get("containers"))):
        if container.get("name") == (seen.container or DI_CONTAINER):
            limits = mapping(mapping(container.get("resources")).get("limits"))
            limit = text_of(limits.get("memory"))
            return f"its limit is {limit}" if limit else ""
    return ""


def _with(what: str, message: str) -> str:
    """Return a cause with the message of the object that has it, unless it says so already."""
    return f"{what}: {message}" if message and message not in what else what


def _by_its_nodes(
    job: Job, kind: FailureCause, seen: Observation
) -> tuple[FailureCause, Observation]:
    """Name the cordon of nodes that would fit the pod, and ignore taints of those that would not
    fit it without them either.
    """
    nodes = job.facts.nodes
    if kind.cause not in _OF_NODES or not nodes:
        return kind, seen
    pod = job.pod(seen.pod)
    if cordoned(pod, nodes):
        is_only = kind.cause is Cause.CORDONED or not can_take(pod, nodes)
        return (_row(Cause.CORDONED) if is_only else kind), seen
    if pod is None or any_of_its_kind(pod, nodes):
        return kind, seen
    return _row(Cause.NO_SUCH_NODE, "didn't match"), seen


def _row(cause: Cause, pattern: str = "") -> FailureCause:
    return next(each for each in FAILURE_CAUSES if each.cause is cause and pattern in each.pattern)


def _cause(job: Job, kind: FailureCause) -> Cause:
    if job.phase is not Phase.FAILED or kind.cause not in _ENDS_AT_LIMIT:
        return kind.cause
    current = job.current
    rule = current is not None and current.reason == "PodFailurePolicy"
    return Cause.FAILURE_RULE if rule else Cause.BACKOFF_LIMIT


def _state(job: Job, *, was: bool) -> str:
    name, restarts = job.facts.name, job.count("restarts")
    if was:
        running = (
            "runs" if job.phase is Phase.RUNNING else f"is {job.phase.value if job.phase else ''}"
        )
        # The count of reschedules has scalings too, which the job's owner asked for.
        changes = {"restarted": restarts, "moved or scaled": job.count("reschedules")}
        again = " and ".join(
            f"{change} {_times(count)}" for change, count in changes.items() if count
        )
        return f"{name} {running}, after it was {again}"
    if job.phase is Phase.FAILED:
        after = f" after it was restarted {_times(restarts)}" if restarts else ""
        return f"{name} failed{after}"
    if job.phase is Phase.RUNNING:
        return f"{name} runs, but not all of it"
    return f"{name} does not run"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _values(job: Job, seen: Observation) -> dict[str, str]:
    nodes = cordoned(job.pod(seen.pod), job.facts.nodes)
    limits = limit_range_of(seen.text, job.facts.limit_ranges)
    return {
        "job": job.facts.name,
        "namespace": job.facts.namespace,
        "pod": seen.pod or "a pod",
        "node": seen.node or _node_in(seen.text) or "of a pod",
        "container": seen.container or "di-container",
        "cordoned": cordoned_text(nodes),
        "cordoned_node": name_of(nodes[0]) if nodes else "NODE",
        "logs": log_command(job, seen),
        "limits": f"LimitRange {limits}" if limits else "a LimitRange",
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
