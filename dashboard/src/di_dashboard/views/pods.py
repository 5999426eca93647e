"""View model of a job's pods as a grid: a line for each task, a cell with the state of each
rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import index_of_pod
from di_api.pods.main_container import all_statuses, main_first
from di_cli.views.jobs import gpus_of
from di_cli.views.pods import in_order, index_of, name_of, rank_of, state_of, task_of
from di_cli.views.times import age
from di_cli.views.top import Amounts, cpu_text, memory_text, resources_of, share_text
from di_dashboard.cluster_cache.usage import Use
from di_dashboard.views.desired_pods import MissingPod

Object = Mapping[str, Any]

MOST_PODS: Final = 2000
"""Maximum number of shown pods of a job."""
NEAR_LIMIT: Final = 0.9
"""Share of its memory limit from which a pod's use is pointed out: at the limit it is killed."""
_UNMEASURED: Final = Use()
_NONE: Final = (Amounts(None, None), Amounts(None, None))
_WAITS: Final = frozenset(
    {"Pending", "ContainerCreating", "PodInitializing", "NotReady", "SchedulingGated"}
)
_SIGNS: Final = {"good": "✓", "waits": "…", "over": "■", "leaving": "↓", "bad": "✕"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A pod.

    Attributes:
        state: its state in one word.
        truth: its state in a sentence; empty if there is nothing to add.
        mood: "good", "waits", "over", "leaving" or "bad".
        sign: the same as a character, for readers who see no color.
        restarts: of its containers, in place.
        gpus: number that it requests.
        cpu, memory: what it uses, with what it requests; empty if it is not measured.
        gpu_use: of its GPUs, in percent; the same.
        exists: whether the cluster has the pod; without it there is no log.
    """

    name: str
    task: str
    index: int
    rank: int | None
    state: str
    truth: str
    mood: str
    sign: str
    restarts: int
    node: str
    age: str
    gpus: int = 0
    cpu: str = ""
    memory: str = ""
    gpu_use: str = ""
    exists: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    """The pods of a task."""

    name: str
    cells: Sequence[Cell]

    @property
    def good(self) -> int:
        """Return the number of running or succeeded pods."""
        return sum(1 for each in self.cells if each.mood in ("good", "over"))


def grid(
    pods: Iterable[Object],
    now: datetime,
    missing: Iterable[MissingPod] = (),
    usage: Mapping[str, Use] = MappingProxyType({}),
) -> list[TaskLine]:
    """Return a line for each task, in the order of their first ranks, with the pods to be."""
    lines: dict[str, list[Cell]] = {}
    for pod in in_order(pods)[:MOST_PODS]:
        lines.setdefault(task_of(pod), []).append(_cell(pod, now, usage))
    room = MOST_PODS - sum(map(len, lines.values()))
    touched = set()
    for each in islice(missing, room):
        lines.setdefault(each.task, []).append(_missing(each))
        touched.add(each.task)
    for task in touched:
        lines[task].sort(key=lambda cell: cell.index)
    return [TaskLine(name=name, cells=cells) for name, cells in lines.items()]


def in_table(lines: Iterable[TaskLine]) -> list[Cell]:
    """Return the pods as rows of a table, those with a problem first."""
    order = {"bad": 0, "waits": 1, "leaving": 2}
    cells = [each for line in lines for each in line.cells]
    return sorted(cells, key=lambda cell: order.get(cell.mood, 3))


def truth_of(pod: Object) -> str:
    """Return the waiting reason or the end of a container, from the kubelet, the main container
    first; else the scheduler's reason.
    """
    status = mapping(pod.get("status"))
    for container in main_first(pod):
        if said := _of_container(container):
            return said
    for each in map(mapping, items(status.get("conditions"))):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return f"no node: {each.get('message') or each.get('reason') or ''}".strip()
    return str(status.get("message") or "")


def _of_container(status: Object) -> str:
    name, state = str(status.get("name") or ""), mapping(status.get("state"))
    waiting, ended = mapping(state.get("waiting")), mapping(state.get("terminated"))
    last = mapping(mapping(status.get("lastState")).get("terminated"))
    if waiting.get("reason") and waiting["reason"] not in ("ContainerCreating", "PodInitializing"):
        parts = [f"{name} waits: {waiting['reason']}", str(waiting.get("message") or "")]
        return ", ".join(part for part in [*parts, _ended("it", last)] if part)
    if ended and ended.get("exitCode"):
        return _ended(name, ended)
    if last and last.get("exitCode"):
        return _ended(f"before its last restart {name}", last)
    return ""


def _ended(who: str, ended: Object) -> str:
    if not ended:
        return ""
    reason = ended.get("reason")
    more = f" ({reason})" if reason and reason != "Error" else ""
    lines = str(ended.get("message") or "").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    return f"{who} ended with exit code {ended.get('exitCode')}{more}{last}"


def _cell(pod: Object, now: datetime, usage: Mapping[str, Use]) -> Cell:
    use = usage.get(name_of(pod), _UNMEASURED)
    state, metadata = state_of(pod), mapping(pod.get("metadata"))
    mood = _mood(state)
    restarts = [each.get("restartCount") for each in all_statuses(pod)]
    requests, limits = _NONE if use == _UNMEASURED else resources_of(pod)
    truth = truth_of(pod) if mood not in ("over", "leaving") else ""
    return Cell(
        name=name_of(pod),
        task=task_of(pod),
        # A name without a number is not one of ours, whatever its labels.
        index=index_of(pod) if "-" in name_of(pod) else 0,
        rank=rank_of(pod),
        state=state,
        truth="; ".join(filter(None, (_near_limit(use, limits), truth))),
        mood=mood,
        sign=_SIGNS[mood],
        restarts=sum(each for each in restarts if isinstance(each, int)),
        node=str(mapping(pod.get("spec")).get("nodeName") or ""),
        age=age(metadata.get("creationTimestamp"), now),
        gpus=gpus_of(mapping(pod.get("spec"))),
        cpu=_beside(cpu_text(use.cpu), cpu_text(requests.cpu)),
        memory=_beside(memory_text(use.memory), memory_text(requests.memory)),
        gpu_use=share_text(use.gpus),
    )


def _beside(used: str, requested: str) -> str:
    """Return what is used, and what is requested if something is."""
    return f"{used} / {requested}" if used and requested else used


def _near_limit(use: Use, limits: Amounts) -> str:
    """Return that a pod uses nearly all memory that it can have; empty: it does not."""
    share = use.memory / limits.memory if use.memory and limits.memory else 0.0
    return f"uses {share:.0%} of its memory limit" if share >= NEAR_LIMIT else ""


def _missing(pod: MissingPod) -> Cell:
    mood = "over" if pod.is_done else "waits"
    return Cell(
        name=pod.name,
        task=pod.task,
        index=index_of_pod(pod.name),
        rank=None,
        state="Succeeded" if pod.is_done else "NotCreated",
        truth=pod.why,
        mood=mood,
        sign=_SIGNS[mood],
        restarts=0,
        node="",
        age="",
        exists=False,
    )


def _mood(state: str) -> str:
    if state == "Running":
        return "good"
    if state in _WAITS:
        return "waits"
    return {"Succeeded": "over", "Terminating": "leaving"}.get(state, "bad")
