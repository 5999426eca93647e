"""The facts about a pod that matter for its replica: finished, ready, lost, and why it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from di_api.names import (
    ANNOTATION_RANK,
    ANNOTATION_REPLICA_ATTEMPT,
    ANNOTATION_RESTART_ATTEMPT,
    ANNOTATION_TASK_REPLICAS,
    LABEL_STANDBY,
    LABEL_TASK_NAME,
    MARKED,
)
from di_api.ownership import controlling_job
from di_api.phase import Phase
from di_api.pods.main_container import (
    ALL_CONTAINERS,
    ENDED,
    main_end,
)
from di_api.spec import FailureAction, FailurePolicy
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.blockers import Blocker, unscheduled
from di_operator.lifecycle.observed.in_place import last_failure
from di_operator.lifecycle.observed.pod_state import (
    READY,
    PodState,
    as_number,
    is_true,
)
from di_operator.lifecycle.observed.stalled import Stalled, find_stalled
from di_operator.lifecycle.vocabulary.failure_rules import Signs, matching_rule
from di_operator.lifecycle.vocabulary.rules import Case, Part, Seen, Then, rule_for
from di_operator.lifecycle.vocabulary.timestamps import parse_time

# The control plane's taint manager sets it when the node has been unreachable for too long.
_NODE_GONE = "DeletionByTaintManager"
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""Condition type that the control plane and the kubelet set on a pod that they end."""
_UNSCHEDULABLE = "Unschedulable"
_NODE_BEHIND: Final = timedelta(seconds=30)
"""How far the clock of a node may be behind the API server's."""
_MAX_REASON = 1024

MAX_LAST_WORDS: Final = 512
"""Maximum number of characters of a failed container's log tail."""
_SHOWN_LINES: Final = 3


def is_read_condition(condition: Mapping[str, Any], *, has_failed: bool) -> bool:
    """Return whether decisions read a condition of a pod; of a failed pod, all that are True."""
    return condition.get("type") == READY or (
        is_true(condition) and (has_failed or condition.get("type") == DISRUPTION_TARGET)
    )


def refusal_of(raw: Mapping[str, Any]) -> str:
    """Return the scheduler's reason why no node fits a waiting pod; empty if it has none.

    A pod with a nominated node has none: it is bound there once the preempted pods are gone.
    """
    status = raw.get("status") or {}
    if (raw.get("spec") or {}).get("nodeName") or "deletionTimestamp" in raw["metadata"]:
        return ""
    condition = None if status.get("nominatedNodeName") else unscheduled(status)
    if condition is None or condition.get("reason") != _UNSCHEDULABLE:
        return ""
    return condition["message"] or _UNSCHEDULABLE


def is_marked_standby(pod: Pod) -> bool:
    """Return whether the label of a pod marks it as standby; used where no spec is available."""
    labels = pod.raw["metadata"].get("labels") or {}
    return bool(labels.get(LABEL_STANDBY) == MARKED)


def is_finished(raw: Mapping[str, Any]) -> bool:
    """Return whether all containers of a raw pod have ended for good.

    Its node and its quota are free then. `phase_of` returns the phase of its replica.
    """
    return (raw.get("status") or {}).get("phase") in ENDED


def task_of(raw: Mapping[str, Any]) -> str | None:
    """Return the name of the task in a pod's labels, None if it has none."""
    return (raw["metadata"].get("labels") or {}).get(LABEL_TASK_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The facts of a pod that decisions read; ``raw`` is never modified."""

    name: str
    namespace: str
    uid: str
    owner: Mapping[str, Any] | None
    """The controller reference to the job."""
    resource_version: str
    phase: str
    """Phase of the replica: the main container decides, see `phase_of`."""
    has_begun: bool
    """Whether any container of a failed pod ran; True for all other pods."""
    rank: int | None
    told_rank: int | None
    """The rank in the environment of the first container, which cannot be edited. Only kept if it
    differs from ``rank`` or if the whole pod is known.
    """
    task_replicas: int | None
    """Number of replicas of the task when the pod was created."""
    attempt: int | None
    """Restart count of the task (as a whole) when the pod was created; None if it cannot
    be read.
    """
    replica_attempt: int | None
    """The same count of the pod's replica, if that has several pods."""
    node: str
    """The node where it runs or may only run; empty until a scheduler has chosen one."""
    ready: bool
    blocker: Blocker | None
    """What keeps it from running; None if no cause is known."""
    stalled: Stalled | None
    """The startup step it is at, if such a step can take too long."""
    is_taken_up: bool
    """Whether a kubelet has accepted it."""
    failures: int
    """Number of failures of containers that were, or will be, restarted in the pod."""
    is_down: bool
    """Whether such a container has not been restarted yet."""
    deleted_at: datetime | None
    """Time at which the pod's grace period ends, None if it is not being deleted."""
    terminating: bool
    reason: str
    """`status.reason`."""
    conditions: frozenset[str]
    """Types of the pod's conditions that are True."""
    raw: Mapping[str, Any]

    @classmethod
    def read(
        cls,
        raw: Mapping[str, Any],
        state: PodState | None = None,
        owner_of: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = controlling_job,
    ) -> Pod:
        """Read a pod as the API server returns it; `state` is its own, if it is known."""
        metadata: Mapping[str, Any] = raw["metadata"]
        annotations: Mapping[str, Any] = metadata.get("annotations") or {}
        deletion = metadata.get("deletionTimestamp")
        if state is None:
            state = PodState.read(raw)
        return cls(
            name=metadata["name"],
            namespace=metadata.get("namespace", ""),
            uid=metadata.get("uid", ""),
            owner=owner_of(raw),
            resource_version=metadata.get("resourceVersion", ""),
            phase=state.phase,
            has_begun=state.has_begun,
            rank=_number(annotations, ANNOTATION_RANK),
            told_rank=state.told_rank,
            task_replicas=_number(annotations, ANNOTATION_TASK_REPLICAS),
            attempt=as_number(annotations.get(ANNOTATION_RESTART_ATTEMPT, "0")),
            replica_attempt=as_number(annotations.get(ANNOTATION_REPLICA_ATTEMPT, "0")),
            node=state.node,
            ready=READY in state.conditions,
            blocker=state.blocker,
            stalled=find_stalled(raw),
            is_taken_up=state.is_taken_up,
            failures=state.failures,
            is_down=state.is_down,
            deleted_at=parse_time(deletion),
            terminating=deletion is not None,
            reason=state.reason,
            conditions=state.conditions,
            raw=raw,
        )

    @property
    def stage(self) -> str:
        """Return its phase, or `Ready` while it is ready."""
        return READY if self.ready and self.phase == "Running" else self.phase

    @property
    def is_finished(self) -> bool:
        """Return whether all of its containers have ended for good; its node is then free."""
        return is_finished(self.raw)

    @property
    def is_over(self) -> bool:
        """Return whether its program has ended for good; a sidecar may still run."""
        return self.phase in ENDED

    @property
    def has_ended(self) -> bool:
        """Return whether every container has ended, even if the pod's phase does not show
        it yet.
        """
        if self.is_finished:
            return True
        statuses = (self.raw.get("status") or {}).get("containerStatuses") or ()
        containers = (self.raw.get("spec") or {}).get("containers") or ()
        ended = [status for status in statuses if "terminated" in (status.get("state") or {})]
        return bool(ended) and len(ended) >= len(containers)

    @property
    def goes_on(self) -> bool:
        """Return whether a container failed and the pod still runs."""
        return self.failures > 0 and not self.is_over and not self.terminating

    @property
    def incarnation(self) -> str:
        """Return an identifier of the pod's present processes, which changes with a restart in
        place.
        """
        return f"{self.uid}/{self.failures}" if self.failures else self.uid

    def answer(self, part: Part, phase: Phase | None) -> Then:
        """Return the response to its failure in a job of that phase."""
        case = Case(
            seen=Seen.POD_FAILED,
            part=part,
            phase=phase,
            has_begun=self.has_begun,
            pod_conditions=self.conditions,
        )
        return rule_for(case).then

    @property
    def signs(self) -> Signs:
        """Return the observations of its failure, if it has failed."""
        ended = _first_failure(self) or {}
        reasons = {ended.get("reason"), self.reason}
        return Signs(
            exit_code=ended.get("exitCode"),
            reasons=frozenset(reason for reason in reasons if reason),
            conditions=self.conditions,
            has_begun=self.has_begun,
            goes_on=self.goes_on,
            is_ending=self.terminating,
        )

    @property
    def is_disrupted(self) -> bool:
        """Return whether the API server or the control plane ends it, by eviction, preemption or
        because its node goes away.
        """
        return DISRUPTION_TARGET in self.conditions

    @property
    def disruption(self) -> str:
        """Return the reason for that, such as EvictionByEvictionAPI; empty if there is none."""
        conditions = (self.raw.get("status") or {}).get("conditions") or ()
        found = (
            each for each in conditions if each.get("type") == DISRUPTION_TARGET and is_true(each)
        )
        return next((each.get("reason") or "" for each in found), "")

    @property
    def node_is_lost(self) -> bool:
        """Return whether the pod is being deleted because its node is unreachable."""
        status = self.raw.get("status") or {}
        return self.terminating and (
            status.get("reason") == "NodeLost" or self.disruption == _NODE_GONE
        )


PodReader: TypeAlias = Callable[[Mapping[str, Any]], Pod]
"""A function from a pod as the API server returns it to its facts."""


class Answers:
    """The responses to the failed pods of a job in one phase, by its failure policy.

    Thousands may fail in the same way: each combination of observations is matched against the
    rules once.
    """

    def __init__(self, phase: Phase | None, policy: FailurePolicy | None) -> None:
        self._phase = phase
        self._policy = policy
        self._known: dict[tuple[Part, str, Signs], Then] = {}

    def of(self, pod: Pod, part: Part, task: str) -> Then:
        """Return the response to a failed pod with that task and role in the job."""
        way = part, task, pod.signs
        answer = self._known.get(way)
        if answer is None:
            answer = self._known[way] = self._answer(pod, *way)
        return answer

    def _answer(self, pod: Pod, part: Part, task: str, signs: Signs) -> Then:
        rule, answer = matching_rule(self._policy, task, signs), pod.answer(part, self._phase)
        if rule is None and signs.is_ending:
            return Then.RESCHEDULE
        # Losing a pod of an elastic tier is no failure, so rules about failures do not apply.
        if rule is None or (part is Part.ELASTIC and answer is Then.RESCHEDULE):
            return answer
        match rule.action:
            case FailureAction.IGNORE:
                return Then.RESCHEDULE
            case FailureAction.RESTART_IN_PLACE:
                return Then.RENEW
            case _:
                return Then.RESTART


def first_failed(pods: Iterable[Pod]) -> Pod:
    """Return the pod that failed first; by rank if no times are known.

    Raises ValueError without pods.
    """

    def order(pod: Pod) -> tuple[str, int]:
        # RFC 3339 times in UTC with whole seconds sort as text; pods without a time come last.
        times = [ended["finishedAt"] for ended in _ended(pod) if ended.get("finishedAt")]
        failed = (_first_failure(pod) or {}).get("finishedAt")
        return (failed or min(times, default="~"), pod.rank if pod.rank is not None else 1 << 31)

    return min(pods, key=order)


def failure_text(pod: Pod) -> str:
    """Return why a pod failed, such as ``exit code 137 (OOMKilled)``.

    If the pod was ended as a whole, the kubelet's reason and message come first: the exit code is
    only a consequence.
    """
    status = pod.raw.get("status") or {}
    reason = status.get("reason") or pod.disruption
    parts = [": ".join(text for text in (reason, status.get("message")) if text)]
    if ended := _first_failure(pod):
        reason = ended.get("reason")
        # "Error" is the kubelet's reason for any other exit code and adds nothing to the number.
        suffix = f" ({reason})" if reason and reason != "Error" else ""
        parts.append(f"exit code {ended['exitCode']}{suffix}")
    return "; ".join(part for part in parts if part) or "no reason given"


def oom_killed(pod: Pod) -> list[str]:
    """Return the containers of a pod that were OOM-killed, by the kubelet's report."""
    return [
        container["name"]
        for container, ended in _ended_containers(pod)
        if ended.get("reason") == "OOMKilled" and container.get("name")
    ]


def seconds_run(pod: Pod) -> float | None:
    """Return the run time of the container that failed first; None if it is not known."""
    ended = _first_failure(pod) or {}
    began, end = parse_time(ended.get("startedAt")), parse_time(ended.get("finishedAt"))
    return None if began is None or end is None else (end - began).total_seconds()


def ended_at(pod: Pod) -> datetime | None:
    """Return when the first failed container ended, or when a kubelet reported the end of a pod
    that never ran. None if no time is known.
    """
    if pod.phase == "Failed" and not pod.has_begun:
        return parse_time((pod.raw.get("status") or {}).get("startTime"))
    return parse_time((_first_failure(pod) or {}).get("finishedAt"))


def deletion_requested_at(pod: Pod) -> datetime | None:
    """Return when a pod was deleted, which starts its grace period; None if that is unknown.

    It is for a pod without a grace period: one that had ended gets none, and neither does any other
    when the kubelet confirms that it is gone. The API server sets the time again then.
    """
    grace = pod.raw["metadata"].get("deletionGracePeriodSeconds")
    if pod.deleted_at is None or not isinstance(grace, int) or grace == 0:
        return None
    return pod.deleted_at - timedelta(seconds=grace)


def has_succeeded(pod: Pod) -> bool:
    """Return whether the pod's program is known to have succeeded, and before the pod was deleted
    if it is.

    One that ends after its SIGTERM has not, and many a program ends in the second of its SIGTERM.
    The time of its end is by the clock of its node, which may be behind the API server's. If the
    time of the deletion is unknown, only what was seen before it can show more. To run an index
    twice costs its time, and an index that never ran would be missing in the result.
    """
    if pod.phase != "Succeeded" or not pod.terminating:
        return pod.phase == "Succeeded"
    ended = parse_time((main_end(pod.raw) or {}).get("finishedAt"))
    requested = deletion_requested_at(pod)
    return ended is not None and requested is not None and ended + _NODE_BEHIND < requested


def last_words(pod: Pod) -> str:
    """Return the log tail of the container that failed first, in one line; empty if there
    is none.
    """
    said = ((_first_failure(pod) or {}).get("message") or "")[-MAX_LAST_WORDS:]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = " / ".join(lines[-_SHOWN_LINES:])
    return "".join(each if each.isprintable() else " " for each in text)


def loss_record(pod: Pod, now: datetime) -> dict[str, Any]:
    """Return the entry of ``status.failures`` that records the pod as counted."""
    ended = _first_failure(pod) or {}
    # If the cluster ended the pod, the exit codes of its containers explain nothing.
    why = pod.reason or (pod.disruption if pod.is_disrupted else "") or ended.get("reason")
    record = {"uid": pod.uid, "pod": pod.name, "time": format_time(now)}
    if ended:
        record["exitCode"] = ended["exitCode"]
    otherwise = "Failed" if pod.phase == "Failed" else "Deleted"
    record["reason"] = (why or otherwise)[:_MAX_REASON]
    return record


def _first_failure(pod: Pod) -> Mapping[str, Any] | None:
    """Return the failure of its main container or, if that did not fail, of the first that did."""
    main = None if pod.goes_on else main_end(pod.raw)
    if main is not None and main.get("exitCode"):
        return main
    failures = [ended for ended in _ended(pod) if ended.get("exitCode")]
    return min(failures, key=lambda state: state.get("finishedAt") or "~", default=None)


def _ended(pod: Pod) -> list[Mapping[str, Any]]:
    return [ended for _, ended in _ended_containers(pod)]


def _ended_containers(pod: Pod) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return the statuses of the ended containers with their termination states. For a pod that
    still runs, only the container that failed last.
    """
    status = pod.raw.get("status") or {}
    if pod.goes_on:
        failed = last_failure(pod.raw)
        return [] if failed is None else [failed]
    return [
        (container, ended)
        for kind in ALL_CONTAINERS
        for container in status.get(kind) or ()
        if (ended := (container.get("state") or {}).get("terminated"))
    ]


def _number(annotations: Mapping[str, Any], key: str) -> int | None:
    # A user can edit an annotation. An invalid rank reserves nothing. So does one with more digits
    # than any job has pods: a list of that length would exhaust the operator's memory.
    return as_number(annotations.get(key))
