"""Resource use of pods beside their requests, by pod and by task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.quantity import parse_quantity
from di_cli.views.pods import in_order, name_of, task_of

HEADER: Final = ("POD", "TASK", "CPU", "OF", "MEMORY", "OF")
_MIB: Final = 1 << 20

Object = Mapping[str, Any]


@dataclass(slots=True)
class _Sum:
    cpu: float = 0.0
    memory: float = 0.0
    cpu_asked: float = 0.0
    memory_asked: float = 0.0

    def add(self, other: _Sum) -> None:
        self.cpu += other.cpu
        self.memory += other.memory
        self.cpu_asked += other.cpu_asked
        self.memory_asked += other.memory_asked

    def cells(self) -> tuple[str, ...]:
        return (
            f"{self.cpu:.2f}",
            f"{self.cpu_asked:.2f}" if self.cpu_asked else "",
            f"{self.memory / _MIB:.0f}Mi",
            f"{self.memory_asked / _MIB:.0f}Mi" if self.memory_asked else "",
        )


def rows(pods: Iterable[Object], metrics: Iterable[Object]) -> list[tuple[str, ...]]:
    """Return a row for each pod, then one for each task with several."""
    used = {name_of(each): each for each in metrics}
    found: list[tuple[str, ...]] = []
    tasks: dict[str, tuple[int, _Sum]] = {}
    for pod in in_order(pods):
        name, task = name_of(pod), task_of(pod)
        total = _use(pod, used.get(name, {}))
        found.append((name, task, *total.cells()))
        count, together = tasks.get(task, (0, _Sum()))
        together.add(total)
        tasks[task] = (count + 1, together)
    found += [
        (f"{count} pods", task, *total.cells())
        for task, (count, total) in tasks.items()
        if count > 1
    ]
    return found


def used(metrics: Object) -> tuple[str, str]:
    """Return the cores and the memory that a pod uses, as text."""
    cpu, _, memory, _ = _measured(metrics).cells()
    return cpu, memory


def _measured(metrics: Object) -> _Sum:
    total = _Sum()
    for container in map(mapping, items(metrics.get("containers"))):
        usage = mapping(container.get("usage"))
        total.cpu += _amount(usage.get("cpu"))
        total.memory += _amount(usage.get("memory"))
    return total


def _use(pod: Object, metrics: Object) -> _Sum:
    total = _measured(metrics)
    for container in map(mapping, items(mapping(pod.get("spec")).get("containers"))):
        asked = mapping(mapping(container.get("resources")).get("requests"))
        total.cpu_asked += _amount(asked.get("cpu"))
        total.memory_asked += _amount(asked.get("memory"))
    return total


def _amount(value: object) -> float:
    if not isinstance(value, str | int):
        return 0.0
    try:
        return float(parse_quantity(value))
    except ValueError:
        return 0.0
