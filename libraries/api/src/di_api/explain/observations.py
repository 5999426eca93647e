"""Observations from the operator, the kubelet, the scheduler and the program.

This module has those of the present state; `history.py` has those from Events and of the past.
Healthy pods give no observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from di_api.explain.facts import (
    Facts,
    Object,
    name_of,
    node_of,
    ready_condition,
    text_of,
    unhealthy_pods,
)
from di_api.explain.job import Condition, Job
from di_api.field_error import items, mapping
from di_api.pods.main_container import (
    ALL_CONTAINERS,
    CONTAINERS,
    ended_beside_main,
    main_end,
    main_status,
    was_rejected,
)
from di_api.timestamps import parse_time

_NAMED: Final = re.compile(r"(?<!\S)(\S++) (?:failed )?first\b")
"""Finds the pod's name in the operator's messages."""
_LOG_TAIL: Final = "; its last lines: "
"""Text before a program's log tail in the operator's messages."""
_LOOP: Final = 2
"""Number of restarts in place from which on they count as a crash loop."""
REJECTED: Final = "PodRejected"
"""Reason of the observation of a pod that failed before any of its containers ran."""
ON_THE_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})


class Source(StrEnum):
    """Source of an observation."""

    CONDITION = "condition"
    WAITING = "waiting"
    ENDED = "ended"
    POD = "pod"
    SCHEDULER = "scheduler"
    EVENT = "event"
    NODE = "node"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One observation."""

    source: Source
    reason: str = ""
    """One-word reason from the source."""
    text: str = ""
    pod: str = ""
    """Name of the pod; empty if the observation is not about a pod."""
    container: str = ""
    is_init: bool = False
    is_beside: bool = False
    """Whether the container has ended beside a main container that runs on."""
    exit_code: int | None = None
    node: str = ""
    at: datetime | None = None

    @property
    def message(self) -> str:
        """Return reason and text together."""
        return ": ".join(part for part in (self.reason, self.text) if part)


def present_observations(job: Job) -> tuple[Observation, ...]:
    """Return the observations of the job's phase and of its unhealthy pods, the first that failed
    first.
    """
    unhealthy = unhealthy_pods(job.facts)
    return (
        *condition_observations(job.current),
        *(seen for pod in unhealthy for seen in _of_pod(pod)),
        *_of_nodes(job.facts, unhealthy),
        *_of_logs(job.facts, unhealthy),
    )


def condition_observations(found: Condition | None) -> Iterator[Observation]:
    """Yield the observation of a condition, and that of the log tail in it."""
    if found is None:
        return
    # The rest is the program's output, which can contain anything.
    message, _, log_tail = found.message.partition(_LOG_TAIL)
    named = _NAMED.search(message)
    yield Observation(
        source=Source.CONDITION,
        reason=found.reason,
        text=message,
        pod=named[1] if named else "",
        at=found.since,
    )
    if log_tail:
        yield Observation(source=Source.LOG, text=log_tail)


def _of_pod(pod: Object) -> Iterator[Observation]:
    status, name, node = mapping(pod.get("status")), name_of(pod), node_of(pod)
    if reason := text_of(status.get("reason")):
        text = text_of(status.get("message"))
        yield Observation(source=Source.POD, reason=reason, text=text, pod=name, node=node)
        if was_rejected(pod):
            words = ": ".join(part for part in (reason, text) if part)
            yield Observation(source=Source.POD, reason=REJECTED, text=words, pod=name, node=node)
    yield from _of_pod_conditions(status, name, node)
    sidecars, main = _sidecars(pod), main_status(pod)
    # Once the program has ended, what the containers beside it do explains nothing.
    decides, beside = main_end(pod) is not None, ended_beside_main(pod)
    for kind in ALL_CONTAINERS:
        for each in map(mapping, items(status.get(kind))):
            if decides and kind == CONTAINERS and each is not main:
                continue
            is_init = kind != CONTAINERS and each.get("name") not in sidecars
            is_beside = beside is not None and each is beside[0]
            for seen in _of_container(each, name, node, is_init=is_init):
                yield replace(seen, is_beside=True) if is_beside else seen
    if beside is not None and not beside[1].get("exitCode"):
        yield Observation(
            source=Source.ENDED,
            reason=text_of(beside[1].get("reason")),
            pod=name,
            container=text_of(beside[0].get("name")),
            is_beside=True,
            exit_code=0,
            node=node,
        )


def _sidecars(pod: Object) -> list[object]:
    """Return the names of the sidecars: restartable init containers of Kubernetes 1.29 and
    newer.
    """
    found = map(mapping, items(mapping(pod.get("spec")).get("initContainers")))
    return [each.get("name") for each in found if each.get("restartPolicy") == "Always"]


def _of_pod_conditions(status: Object, pod: str, node: str) -> Iterator[Observation]:
    for each in map(mapping, items(status.get("conditions"))):
        kind, value = each.get("type"), each.get("status")
        sources = {("DisruptionTarget", "True"): Source.POD}
        sources["PodScheduled", "False"] = Source.SCHEDULER
        source = sources.get((text_of(kind), text_of(value)))
        if source is not None:
            yield Observation(
                source=source,
                reason=text_of(each.get("reason")),
                text=text_of(each.get("message")),
                pod=pod,
                node=node,
                at=parse_time(each.get("lastTransitionTime")),
            )


def _of_container(
    container: Object, pod: str, node: str, *, is_init: bool
) -> Iterator[Observation]:
    name = text_of(container.get("name"))
    state, last = mapping(container.get("state")), mapping(container.get("lastState"))
    for ended in (mapping(state.get("terminated")), mapping(last.get("terminated"))):
        code = ended.get("exitCode")
        if isinstance(code, int) and code != 0:
            yield Observation(
                source=Source.ENDED,
                reason=text_of(ended.get("reason")),
                text=text_of(ended.get("message")),
                pod=pod,
                container=name,
                is_init=is_init,
                exit_code=code,
                node=node,
                at=parse_time(ended.get("finishedAt")),
            )
    yield from _again_and_again(container, pod, node, is_init=is_init)
    waiting = mapping(state.get("waiting"))
    if (reason := text_of(waiting.get("reason"))) not in ON_THE_WAY:
        yield Observation(
            source=Source.WAITING,
            reason=reason,
            text=text_of(waiting.get("message")),
            pod=pod,
            container=name,
            is_init=is_init,
            node=node,
        )


def _again_and_again(
    container: Object, pod: str, node: str, *, is_init: bool
) -> Iterator[Observation]:
    """Yield the observation of a container in a crash loop that is not waiting for its next start;
    otherwise it would look like a first failure.
    """
    times, last = container.get("restartCount"), mapping(container.get("lastState"))
    code = mapping(last.get("terminated")).get("exitCode")
    if isinstance(times, int) and times >= _LOOP and isinstance(code, int) and code != 0:
        yield Observation(
            source=Source.WAITING,
            reason="CrashLoopBackOff",
            text=f"started {times} times again, ended with exit code {code} before",
            pod=pod,
            container=text_of(container.get("name")),
            is_init=is_init,
            node=node,
        )


def _of_nodes(facts: Facts, unhealthy: Iterable[Object]) -> Iterator[Observation]:
    nodes = {name_of(node): node for node in facts.nodes}
    if not nodes:
        return
    for pod in unhealthy:
        node = node_of(pod)
        if not node:
            continue
        ready = ready_condition(nodes[node]) if node in nodes else {"reason": "NodeGone"}
        if node not in nodes or ready.get("status") in ("False", "Unknown"):
            text = text_of(ready.get("message")) or f"there is no node {node} any more"
            since = parse_time(ready.get("lastTransitionTime"))
            yield Observation(
                source=Source.NODE,
                reason="NodeNotReady" if node in nodes else "NodeGone",
                text=text,
                pod=name_of(pod),
                node=node,
                at=since,
            )


def _of_logs(facts: Facts, unhealthy: Iterable[Object]) -> Iterator[Observation]:
    for pod in unhealthy:
        lines = facts.logs.get(name_of(pod)) or ()
        if lines:
            yield Observation(source=Source.LOG, text="\n".join(lines), pod=name_of(pod))
