"""Resource use of pods beside their requests and limits: by pod and task, or by job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from di_api.field_error import items, mapping
from di_api.names import LABEL_JOB
from di_api.pods.main_container import ENDED
from di_api.quantity import parse_quantity
from di_cli.views.jobs import Key, gpus_of, key_of
from di_cli.views.pods import in_order, name_of, task_of

_REQUEST: Final = "REQUEST"
_LIMIT: Final = "LIMIT"
_HEADER: Final = ("CPU", _REQUEST, _LIMIT, "MEMORY", _REQUEST, _LIMIT, "GPUS", "USED")
_GPU_COLUMNS: Final = 2
_MIB: Final = 1 << 20
_CPU, _MEMORY = "cpu", "memory"
Object = Mapping[str, Any]
_NO_SHARES: Final[Mapping[Key, float]] = MappingProxyType({})
Lines = tuple[Sequence[str], Sequence[Sequence[str]]]
"""A header and rows."""


class Amounts(NamedTuple):
    """Cores and bytes of memory."""

    cpu: float | None
    memory: float | None


@dataclass(slots=True)
class _Sum:
    """Pods together. An absent limit means that a container has none."""

    pods: int = 0
    measured: int = 0
    used: dict[str, float] = field(default_factory=dict)
    requests: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    gpus: int = 0
    gpu_shares: list[float] = field(default_factory=list)

    def add(self, other: _Sum) -> None:
        self.limits = _limits([self.limits, other.limits]) if self.pods else {**other.limits}
        self.pods += other.pods
        self.measured += other.measured
        self.gpus += other.gpus
        self.gpu_shares += other.gpu_shares
        self.used = _total([self.used, other.used])
        self.requests = _total([self.requests, other.requests])

    def cells(self) -> tuple[str, ...]:
        used = self.used if self.measured else {}
        share = sum(self.gpu_shares) / len(self.gpu_shares) if self.gpu_shares else None
        return (
            *(cpu_text(each.get(_CPU)) for each in (used, self.requests, self.limits)),
            *(memory_text(each.get(_MEMORY)) for each in (used, self.requests, self.limits)),
            str(self.gpus or ""),
            share_text(share),
        )

    def some(self) -> str:
        """Return how many are measured, if others are not."""
        return f", {self.measured} measured" if 0 < self.measured < self.pods else ""


def by_pod(
    pods: Iterable[Object],
    metrics: Iterable[Object],
    gpu_shares: Mapping[Key, float] = _NO_SHARES,
) -> Lines:
    """Return a row for each pod, then one for each task with several that have not ended.

    Limits are shown if a pod has one, and GPUs if a pod requests some. What is not measured is
    empty.

    Args:
        pods: of one job.
        metrics: of metrics.k8s.io.
        gpu_shares: the use of GPUs in percent, by pod.
    """
    measured = {key_of(each): each for each in metrics}
    found: list[tuple[str, ...]] = []
    tasks: dict[str, _Sum] = {}
    for pod in in_order(pods):
        total = _of_pod(pod, measured.get(key_of(pod)), gpu_shares.get(key_of(pod)))
        found.append((name_of(pod), task_of(pod), *total.cells()))
        if not _has_ended(pod):
            tasks.setdefault(task_of(pod), _Sum()).add(total)
    found += [
        (f"{total.pods} pods{total.some()}", task, *total.cells())
        for task, total in tasks.items()
        if total.pods > 1
    ]
    return _shown(("POD", "TASK"), found)


def by_job(
    pods: Iterable[Object],
    metrics: Iterable[Object],
    gpu_shares: Mapping[Key, float] = _NO_SHARES,
    *,
    namespaces: bool = False,
) -> Lines:
    """Return a row for each job with pods that have not ended, by name; else as `by_pod`.

    Args:
        pods: of the jobs.
        metrics: of metrics.k8s.io.
        gpu_shares: the use of GPUs in percent, by pod.
        namespaces: whether rows begin with the namespace.
    """
    measured = {key_of(each): each for each in metrics}
    jobs: dict[Key, _Sum] = {}
    for pod in pods:
        if not _has_ended(pod):
            total = _of_pod(pod, measured.get(key_of(pod)), gpu_shares.get(key_of(pod)))
            jobs.setdefault((key_of(pod)[0], _job_of(pod)), _Sum()).add(total)
    first = ("NAMESPACE", "JOB") if namespaces else ("JOB",)
    found = [
        (*key[-len(first) :], f"{total.pods}{total.some()}", *total.cells())
        for key, total in sorted(jobs.items())
    ]
    return _shown((*first, "PODS"), found)


def optional(header: Sequence[str]) -> list[str]:
    """Return the columns that a narrow terminal leaves out, the first one first."""
    return [title for each in (_LIMIT, _REQUEST) for title in header if title == each]


def unmeasured(pods: Iterable[Object], metrics: Iterable[Object]) -> list[str]:
    """Return the running pods without a measurement."""
    measured = {key_of(each) for each in metrics}
    return [
        name_of(pod)
        for pod in in_order(pods)
        if mapping(pod.get("status")).get("phase") == "Running" and key_of(pod) not in measured
    ]


def used(metrics: Object) -> Amounts:
    """Return the cores and the bytes of memory that a pod uses."""
    return _amounts_of(_used(metrics))


def resources_of(pod: Object) -> tuple[Amounts, Amounts]:
    """Return what a pod requests, and what it can use; None: no request, no limit."""
    requests, limits = _resources(mapping(pod.get("spec")))
    return _amounts_of(requests), _amounts_of(limits)


def _amounts_of(found: Mapping[str, float]) -> Amounts:
    return Amounts(cpu=found.get(_CPU), memory=found.get(_MEMORY))


def gpu_share(value: Object) -> tuple[str, float | None]:
    """Return the pod of a custom metric's value, and the value in percent."""
    name = str(mapping(value.get("describedObject")).get("name") or "")
    return name, _amount(value.get("value"))


def cpu_text(cores: float | None) -> str:
    """Return cores as text; empty: unknown."""
    return "" if cores is None else f"{cores:.2f}"


def memory_text(size: float | None) -> str:
    """Return bytes as text; empty: unknown."""
    return "" if size is None else f"{size / _MIB:.0f}Mi"


def share_text(percent: float | None) -> str:
    """Return a percentage as text; empty: unknown."""
    return "" if percent is None else f"{percent:.0f}%"


def _shown(first: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Lines:
    """Return the table without limits and GPUs that no row has."""
    header, found = (*first, *_HEADER), list(rows)
    gpus = len(header) - _GPU_COLUMNS
    has_gpus = any(row[gpus] for row in found)
    shown = [
        index
        for index, title in enumerate(header)
        # An empty use beside requests of GPUs means that it is not measured.
        if (has_gpus if index >= gpus else title != _LIMIT or any(row[index] for row in found))
    ]
    return [header[index] for index in shown], [[row[index] for index in shown] for row in found]


def _job_of(pod: Object) -> str:
    return str(mapping(mapping(pod.get("metadata")).get("labels")).get(LABEL_JOB) or "")


def _has_ended(pod: Object) -> bool:
    return mapping(pod.get("status")).get("phase") in ENDED


def _of_pod(pod: Object, metrics: Object | None, gpu_share: float | None) -> _Sum:
    spec = mapping(pod.get("spec"))
    requests, limits = _resources(spec)
    return _Sum(
        pods=1,
        measured=0 if metrics is None else 1,
        used={} if metrics is None else _used(metrics),
        requests=requests,
        limits=limits,
        gpus=gpus_of(spec),
        gpu_shares=[] if gpu_share is None else [gpu_share],
    )


def _used(metrics: Object) -> dict[str, float]:
    containers = map(mapping, items(metrics.get("containers")))
    zero = {_CPU: 0.0, _MEMORY: 0.0}
    return _total([zero, *(_amounts(each.get("usage")) for each in containers)])


def _resources(spec: Object) -> tuple[dict[str, float], dict[str, float]]:
    """Return requests and limits of what runs at the same time: containers and sidecars. Those of
    the pod itself replace them.
    """
    before = map(mapping, items(spec.get("initContainers")))
    running = [
        *map(mapping, items(spec.get("containers"))),
        *(each for each in before if each.get("restartPolicy") == "Always"),
    ]
    resources = [mapping(each.get("resources")) for each in running]
    of_pod = mapping(spec.get("resources"))
    limits = [_amounts(each.get("limits")) for each in resources]
    requests = [
        {**limit, **_amounts(each.get("requests"))}
        for limit, each in zip(limits, resources, strict=True)
    ]
    return (
        {**_total(requests), **_amounts(of_pod.get("requests"))},
        {**_limits(limits), **_amounts(of_pod.get("limits"))},
    )


def _total(amounts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in amounts:
        for name, value in each.items():
            found[name] = found.get(name, 0.0) + value
    return found


def _limits(amounts: list[dict[str, float]]) -> dict[str, float]:
    """Return the sums of the limits that all have."""
    return {
        name: value
        for name, value in _total(amounts).items()
        if all(name in each for each in amounts)
    }


def _amounts(resources: object) -> dict[str, float]:
    found = mapping(resources)
    amounts = {name: _amount(found.get(name)) for name in (_CPU, _MEMORY)}
    return {name: value for name, value in amounts.items() if value is not None}


def _amount(value: object) -> float | None:
    return _parsed(value) if isinstance(value, str | int) else None


@lru_cache(maxsize=4096)
def _parsed(value: str | int) -> float | None:
    try:
        return float(parse_quantity(value))
    except ValueError:
        return None
