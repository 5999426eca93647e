"""What one pod says about its replica: finished how, ready, lost, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from di_api.names import (
    ANNOTATION_RANK,
    ANNOTATION_REPLICA_ATTEMPT,
    ANNOTATION_RESTART_ATTEMPT,
    ANNOTATION_TASK_REPLICAS,
    ENV_RANK,
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
    phase_of,
    was_rejected,
)
from di_api.spec import FailureAction, FailurePolicy
from di_api.timestamps import format_time
from di_operator.builders.pinning import node_of
from di_operator.lifecycle.observed.blockers import (
    Blocker,
    find_blocker,
    unscheduled,
)
from di_operator.lifecycle.observed.in_place import failures_in, is_down, last_failure
from di_operator.lifecycle.observed.stalled import Stalled, find_stalled
from di_operator.lifecycle.vocabulary.failure_rules import Signs, matching_rule
from di_operator.lifecycle.vocabulary.rules import Case, Part, Seen, Then, rule_for
from di_operator.lifecycle.vocabulary.timestamps import parse_time

# Set by the control plane's taint manager when the pod's node has been unreachable for too long.
_NODE_GONE = "DeletionByTaintManager"
_READY = "Ready"
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""Type of the condition that the control plane and the kubelet give a pod that they end."""
_UNSCHEDULABLE = "Unschedulable"
_MAX_REASON = 1024
_NUMBER = re.compile("[0-9]{1,5}")

MAX_LAST_WORDS: Final = 512
"""Characters that are kept of what a container said before it failed, the last ones."""
_SHOWN_LINES: Final = 3


def is_read_condition(condition: Mapping[str, Any], *, has_failed: bool) -> bool:
    """Whether a pod's condition is read: of one that failed, all that are True."""
    return condition.get("type") == _READY or (
        _is_true(condition) and (has_failed or condition.get("type") == DISRUPTION_TARGET)
    )


def told_rank(raw: Mapping[str, Any]) -> int | None:
    """The rank that the first container of a pod was started with, None if it has none."""
    containers = (raw.get("spec") or {}).get("containers") or ()
    variables = containers[0].get("env") or () if containers else ()
    found = (one.get("value") for one in variables if one.get("name") == ENV_RANK)
    return _as_number(next(found, None))


def refusal_of(raw: Mapping[str, Any]) -> str:
    """Why no node takes a pod that waits to be bound, in the words of its scheduler; else empty.

    One that has a node nominated is about to be bound there, when the pods that make room are gone.
    """
    status = raw.get("status") or {}
    if (raw.get("spec") or {}).get("nodeName") or "deletionTimestamp" in raw["metadata"]:
        return ""
    condition = None if status.get("nominatedNodeName") else unscheduled(status)
    if condition is None or condition.get("reason") != _UNSCHEDULABLE:
        return ""
    return condition["message"] or _UNSCHEDULABLE


def is_marked_standby(pod: Pod) -> bool:
    """Whether a pod stands by, as its label says: where there is no spec to tell it by."""
    labels = pod.raw["metadata"].get("labels") or {}
    return bool(labels.get(LABEL_STANDBY) == MARKED)


def is_finished(raw: Mapping[str, Any]) -> bool:
    """Whether all containers of a pod, as the API server returns it, have ended for good.

    That is when its node and its quota are free; how its replica stands is `phase_of`.
    """
    return (raw.get("status") or {}).get("phase") in ENDED


def task_of(raw: Mapping[str, Any]) -> str | None:
    """The name of the task that a pod is labelled to be of."""
    return (raw["metadata"].get("labels") or {}).get(LABEL_TASK_NAME)


def stage_of(raw: Mapping[str, Any]) -> str:
    """How far a pod has got: its phase, and `Ready` while it is ready."""
    phase, conditions = phase_of(raw), _conditions(raw.get("status") or {})
    return _READY if phase == "Running" and _READY in conditions else phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The facts of a pod that decisions are made on; ``raw`` is never modified."""

    name: str
    namespace: str
    uid: str
    owner: Mapping[str, Any] | None
    """The reference to the job that controls it."""
    resource_version: str
    phase: str
    """That of its replica: its main container decides, see `phase_of`."""
    has_begun: bool
    """Whether any of its containers ran, if it has failed; else True."""
    rank: int | None
    told_rank: int | None
    """The rank in the environment of its first container, which nobody can edit, if it differs
    from ``rank`` or the whole pod is known."""
    task_replicas: int | None
    """How many replicas its task had when it was made."""
    attempt: int | None
    """How often its task had been restarted as a whole when it was made; None: not readable."""
    replica_attempt: int | None
    """How often its replica of several pods had been made anew when it was made; likewise."""
    node: str
    """Where it runs, or is to run and nowhere else; empty: its scheduler has to choose yet."""
    ready: bool
    blocker: Blocker | None
    """What keeps it from running; None: nothing that is known of."""
    stalled: Stalled | None
    """The step on its way to running that it is at, which may last."""
    is_taken_up: bool
    """Whether a kubelet has seen it."""
    failures: int
    """How often a container of it failed and was, or will be, started again in it."""
    is_down: bool
    """Whether such a container does not run again yet."""
    deleted_at: datetime | None
    """When the pod's grace period ends, None while nobody deleted it."""
    terminating: bool
    reason: str
    """`status.reason`."""
    conditions: frozenset[str]
    """Types of its conditions that are True."""
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Pod:
        """Read a pod as the API server returns it."""
        metadata: Mapping[str, Any] = raw["metadata"]
        status: Mapping[str, Any] = raw.get("status") or {}
        annotations: Mapping[str, Any] = metadata.get("annotations") or {}
        deletion = metadata.get("deletionTimestamp")
        conditions, phase = _conditions(status), phase_of(raw)
        return cls(
            name=metadata["name"],
            namespace=metadata.get("namespace", ""),
            uid=metadata.get("uid", ""),
            owner=controlling_job(raw),
            resource_version=metadata.get("resourceVersion", ""),
            phase=phase,
            has_begun=not was_rejected(raw),
            rank=_number(annotations, ANNOTATION_RANK),
            told_rank=told_rank(raw),
            task_replicas=_number(annotations, ANNOTATION_TASK_REPLICAS),
            attempt=_as_number(annotations.get(ANNOTATION_RESTART_ATTEMPT, "0")),
            replica_attempt=_as_number(annotations.get(ANNOTATION_REPLICA_ATTEMPT, "0")),
            node=node_of(raw.get("spec") or {}),
            ready=_READY in conditions,
            blocker=find_blocker(raw),
            stalled=find_stalled(raw),
            is_taken_up=status.get("startTime") is not None or phase != "Pending",
            failures=failures_in(raw),
            is_down=is_down(raw),
            deleted_at=parse_time(deletion),
            terminating=deletion is not None,
            reason=status.get("reason") or "",
            conditions=conditions,
            raw=raw,
        )

    @property
    def is_finished(self) -> bool:
        """Whether all of its containers have ended for good: its node is free."""
        return is_finished(self.raw)

    @property
    def is_over(self) -> bool:
        """Whether its program has ended for good; a sidecar may run on."""
        return self.phase in ENDED

    @property
    def has_ended(self) -> bool:
        """Whether every container has ended, also before the kubelet says so by the phase."""
        if self.is_finished:
            return True
        statuses = (self.raw.get("status") or {}).get("containerStatuses") or ()
        containers = (self.raw.get("spec") or {}).get("containers") or ()
        ended = [status for status in statuses if "terminated" in (status.get("state") or {})]
        return bool(ended) and len(ended) >= len(containers)

    @property
    def goes_on(self) -> bool:
        """Whether a container of it failed, and the pod goes on."""
        return self.failures > 0 and not self.is_over and not self.terminating

    @property
    def incarnation(self) -> str:
        """Its processes, told from those before them in the same pod."""
        return f"{self.uid}/{self.failures}" if self.failures else self.uid

    def answer(self, part: Part, phase: Phase | None) -> Then:
        """What is done about it if it has failed, in a job of that phase."""
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
        """What it shows of its failure, if it has failed."""
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
        """Whether the API server or the control plane ends it: it was evicted, preempted, or its
        node is to go."""
        return DISRUPTION_TARGET in self.conditions

    @property
    def disruption(self) -> str:
        """The reason of that, such as EvictionByEvictionAPI; empty: there is none."""
        conditions = (self.raw.get("status") or {}).get("conditions") or ()
        found = (
            each for each in conditions if each.get("type") == DISRUPTION_TARGET and _is_true(each)
        )
        return next((each.get("reason") or "" for each in found), "")

    @property
    def node_is_lost(self) -> bool:
        """Whether the pod is deleted because its node does not answer any more."""
        status = self.raw.get("status") or {}
        return self.terminating and (
            status.get("reason") == "NodeLost" or self.disruption == _NODE_GONE
        )


PodReader: TypeAlias = Callable[[Mapping[str, Any]], Pod]
"""From a pod as the API server returns it to its facts."""


class Answers:
    """What is done about the failed pods of a job in one phase, by its policy.

    Thousands may have failed in the same way: the rules are asked once for each way.
    """

    def __init__(self, phase: Phase | None, policy: FailurePolicy | None) -> None:
        self._phase = phase
        self._policy = policy
        self._known: dict[tuple[Part, str, Signs], Then] = {}

    def of(self, pod: Pod, part: Part, task: str) -> Then:
        """What is done about a failed pod of a task that is this part of the job."""
        way = part, task, pod.signs
        answer = self._known.get(way)
        if answer is None:
            answer = self._known[way] = self._answer(pod, *way)
        return answer

    def _answer(self, pod: Pod, part: Part, task: str, signs: Signs) -> Then:
        rule, answer = matching_rule(self._policy, task, signs), pod.answer(part, self._phase)
        if rule is None and signs.is_ending:
            return Then.RESCHEDULE
        # To lose one of an elastic tier is no failure, whatever a rule says of failures.
        if rule is None or (part is Part.ELASTIC and answer is Then.RESCHEDULE):
            return answer
        match rule.action:
            case FailureAction.IGNORE:
                return Then.RESCHEDULE
            case FailureAction.RESTART_IN_PLACE:
                return Then.RENEW
            case _:
                return Then.RESTART


class PodCache:
    """A PodReader that remembers so many pods, by UID; the ones it met first go first.

    Objects are replaced and never changed, so a pod that is the very object read before is as it
    was. Reading the pods of a large job anew for each look would take longer than the decision.
    """

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._pods: dict[str, Pod] = {}

    def __call__(self, raw: Mapping[str, Any]) -> Pod:
        """Return the facts of a pod."""
        uid = raw["metadata"].get("uid", "")
        pod = self._pods.get(uid)
        if pod is None or pod.raw is not raw:
            pod = self._pods[uid] = Pod.read(raw)
            if len(self._pods) > self._size:
                del self._pods[next(iter(self._pods))]
        return pod

    def follow(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Read a pod when it changes: a look at a large job then finds what is read already.

        A subscriber of a watch cache; forgets a pod that is gone.
        """
        if kind == "DELETED":
            self._pods.pop(raw["metadata"].get("uid", ""), None)
        else:
            self(raw)


def first_failed(pods: Iterable[Pod]) -> Pod:
    """Return the pod that failed first, by rank when they say nothing about the time.

    Raises ValueError without pods.
    """

    def order(pod: Pod) -> tuple[str, int]:
        # RFC 3339 in UTC with whole seconds sorts as text; pods without a time come last.
        times = [ended["finishedAt"] for ended in _ended(pod) if ended.get("finishedAt")]
        failed = (_first_failure(pod) or {}).get("finishedAt")
        return (failed or min(times, default="~"), pod.rank if pod.rank is not None else 1 << 31)

    return min(pods, key=order)


def failure_text(pod: Pod) -> str:
    """Say why a pod failed: ``exit code 137 (OOMKilled)``.

    Where the pod was ended as a whole, the kubelet's reason and message go first: the exit code is
    only what came of that.
    """
    status = pod.raw.get("status") or {}
    reason = status.get("reason") or pod.disruption
    parts = [": ".join(text for text in (reason, status.get("message")) if text)]
    if ended := _first_failure(pod):
        reason = ended.get("reason")
        # "Error" is the kubelet's word for any other code and adds nothing to the number.
        suffix = f" ({reason})" if reason and reason != "Error" else ""
        parts.append(f"exit code {ended['exitCode']}{suffix}")
    return "; ".join(part for part in parts if part) or "no reason given"


def oom_killed(pod: Pod) -> list[str]:
    """Containers of a pod that the kernel killed for want of memory, as the kubelet says."""
    return [
        container["name"]
        for container, ended in _ended_containers(pod)
        if ended.get("reason") == "OOMKilled" and container.get("name")
    ]


def seconds_run(pod: Pod) -> float | None:
    """How long the container that failed first had run; None if nothing says so."""
    ended = _first_failure(pod) or {}
    began, end = parse_time(ended.get("startedAt")), parse_time(ended.get("finishedAt"))
    return None if began is None or end is None else (end - began).total_seconds()


def ended_at(pod: Pod) -> datetime | None:
    """When the container that failed first did, or a kubelet saw one that never ran; None if
    nothing says so."""
    if pod.phase == "Failed" and not pod.has_begun:
        return parse_time((pod.raw.get("status") or {}).get("startTime"))
    return parse_time((_first_failure(pod) or {}).get("finishedAt"))


def deletion_requested_at(pod: Pod) -> datetime | None:
    """When a pod was deleted: its grace period began then; None if it is not."""
    grace = pod.raw["metadata"].get("deletionGracePeriodSeconds")
    if pod.deleted_at is None or not isinstance(grace, int):
        return None
    return pod.deleted_at - timedelta(seconds=grace)


def last_words(pod: Pod) -> str:
    """The last lines of the container that failed first, in one; empty if nothing is known."""
    said = ((_first_failure(pod) or {}).get("message") or "")[-MAX_LAST_WORDS:]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = " / ".join(lines[-_SHOWN_LINES:])
    return "".join(each if each.isprintable() else " " for each in text)


def loss_record(pod: Pod, now: datetime) -> dict[str, Any]:
    """Return the entry of ``status.failures`` that says the loss of this pod is counted."""
    ended = _first_failure(pod) or {}
    # How the containers end explains nothing where the cluster has ended them.
    why = pod.reason or (pod.disruption if pod.is_disrupted else "") or ended.get("reason")
    record = {"uid": pod.uid, "pod": pod.name, "time": format_time(now)}
    if ended:
        record["exitCode"] = ended["exitCode"]
    otherwise = "Failed" if pod.phase == "Failed" else "Deleted"
    record["reason"] = (why or otherwise)[:_MAX_REASON]
    return record


def _first_failure(pod: Pod) -> Mapping[str, Any] | None:
    """How its main container failed; where that did not, the container that failed first."""
    main = None if pod.goes_on else main_end(pod.raw)
    if main is not None and main.get("exitCode"):
        return main
    failures = [ended for ended in _ended(pod) if ended.get("exitCode")]
    return min(failures, key=lambda state: state.get("finishedAt") or "~", default=None)


def _ended(pod: Pod) -> list[Mapping[str, Any]]:
    return [ended for _, ended in _ended_containers(pod)]


def _ended_containers(pod: Pod) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The statuses of the containers that have ended, each with how; of a pod that goes on, that of
    the container that failed last."""
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


def _conditions(status: Mapping[str, Any]) -> frozenset[str]:
    """The types of conditions that are True."""
    by_type = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    return frozenset(str(kind) for kind, condition in by_type.items() if _is_true(condition))


def _is_true(condition: Mapping[str, Any]) -> bool:
    return bool(condition.get("status") == "True")


def _number(annotations: Mapping[str, Any], key: str) -> int | None:
    # Anybody may edit an annotation. One that is no rank reserves nothing; neither does one with
    # more digits than any job has pods, or a list indexed by it would eat the operator's memory.
    return _as_number(annotations.get(key))


def _as_number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None
