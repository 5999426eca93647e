"""Use of the cluster's GPUs: a line for each node, a cell for each GPU."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.ownership import controlling_job
from di_api.quantity import read_quantity
from di_cli.views.jobs import GPU

Object = Mapping[str, Any]

OTHERS: Final = "others"
FREE: Final = "free"
_LETTERS: Final = string.ascii_uppercase + string.ascii_lowercase + string.digits
_MANY, _OTHER, _FREE, _AWAY = "*", "#", "·", "x"
_WIDTH: Final = 48
"""Number of cells of the widest node; if it has more of the resource, a cell represents several."""
_ALWAYS: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


@dataclass(slots=True, kw_only=True)
class Node:
    """A node's amount of the resource, and its use, in base units.

    Attributes:
        total: allocatable.
        jobs: by `<namespace>/<name>`, the requests of each job's pods.
        others: the requests of all other pods.
        away: why it accepts no pods: cordoned or not ready; empty: it accepts pods.
    """

    name: str
    total: Decimal
    jobs: dict[str, Decimal] = field(default_factory=dict)
    others: Decimal = Decimal(0)
    away: str = ""

    @property
    def held(self) -> Decimal:
        """Return the sum of all requests."""
        return self.others + sum(self.jobs.values(), Decimal(0))

    @property
    def free(self) -> Decimal:
        """Return the unused amount; zero for a node that accepts no pods."""
        return Decimal(0) if self.away else max(Decimal(0), self.total - self.held)


def resource_of(nodes: Iterable[Object], asked: str | None) -> str:
    """Return the resource to show: the requested one, else NVIDIA's GPUs, other devices, or CPUs in
    a cluster without devices.
    """
    found = Counter(name for node in nodes for name in _allocatable(node) if name not in _ALWAYS)
    devices = [name for name, _ in found.most_common() if not name.startswith("hugepages-")]
    return asked or next((each for each in (GPU, *devices) if each in found), "cpu")


def nodes_of(nodes: Iterable[Object], pods: Iterable[Object], resource: str) -> list[Node]:
    """Return every node with the resource, by name, with its use."""
    known = {
        name: Node(name=name, total=_amount(_allocatable(node).get(resource)), away=_away(node))
        for node in nodes
        if (name := str(mapping(node.get("metadata")).get("name") or ""))
    }
    for pod in pods:
        node = known.get(str(mapping(pod.get("spec")).get("nodeName") or ""))
        if node is not None and (amount := requested(mapping(pod.get("spec")), resource)):
            _book(node, pod, amount)
    return sorted((each for each in known.values() if each.total), key=lambda node: node.name)


def requested(spec: Object, resource: str) -> Decimal:
    """Return what a pod requests, without init containers and overhead."""
    total = Decimal(0)
    for container in map(mapping, items(spec.get("containers"))):
        resources = mapping(container.get("resources"))
        limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
        total += _amount({**limits, **requests}.get(resource))
    return total


def heat_map(nodes: Sequence[Node], resource: str) -> Iterator[str]:
    """Yield the lines of the map with its legend; names identify jobs, colors are for states."""
    jobs = _by_amount(nodes)
    letters = dict(zip(jobs, _LETTERS, strict=False))
    unit = max(Decimal(1), *(node.total / _WIDTH for node in nodes))
    width = max(4, *(len(node.name) for node in nodes))
    drawn = {node.name: _cells(node, letters, unit) for node in nodes}
    wide = max(len(resource), *(len(cells) for cells in drawn.values()))
    yield f"{'NODE'.ljust(width)}  {resource.ljust(wide)}  HELD"
    for node in nodes:
        note = f"  {node.away}" if node.away else ""
        cells = drawn[node.name].ljust(wide)
        yield f"{node.name.ljust(width)}  {cells}  {text(node.held)}/{text(node.total)}{note}"
    yield ""
    for name, amount in jobs.items():
        where = sum(1 for node in nodes if node.jobs.get(name))
        yield f"{letters.get(name, _MANY)}  {name}  {text(amount)} on {_nodes(where)}"
    if others := sum((node.others for node in nodes), Decimal(0)):
        yield f"{_OTHER}  pods of no job  {text(others)}"
    free = sum((node.free for node in nodes), Decimal(0))
    total = sum((node.total for node in nodes), Decimal(0))
    of_each = f"; each cell is {text(unit)}" if unit > 1 else ""
    yield f"{_FREE}  free  {text(free)} of {text(total)}{of_each}"


def rows(nodes: Sequence[Node]) -> list[tuple[str, ...]]:
    """Return a row for each job on each node, with the columns of `WIDE`."""
    return [
        (node.name, holder, text(amount), text(node.total), node.away)
        for node in nodes
        for holder, amount in _holders(node)
    ]


WIDE: Final = ("NODE", "HOLDER", "HELD", "OF", "NOTE")


def as_json(nodes: Sequence[Node], resource: str) -> dict[str, Any]:
    """Return the map for programs."""
    return {
        "resource": resource,
        "nodes": [
            {
                "name": node.name,
                "total": _number(node.total),
                "free": _number(node.free),
                "jobs": {name: _number(held) for name, held in sorted(node.jobs.items())},
                OTHERS: _number(node.others),
                "note": node.away,
            }
            for node in nodes
        ],
    }


def text(value: Decimal) -> str:
    """Return an amount without needless digits."""
    return f"{value.quantize(Decimal('0.1')).normalize():f}"


def _holders(node: Node) -> Iterator[tuple[str, Decimal]]:
    yield from ((name, held) for name, held in sorted(node.jobs.items()))
    if node.others:
        yield OTHERS, node.others
    if node.free:
        yield FREE, node.free


def _book(node: Node, pod: Object, amount: Decimal) -> None:
    owner = controlling_job(pod)
    if owner is None:
        node.others += amount
        return
    namespace = mapping(pod.get("metadata")).get("namespace")
    key = f"{namespace}/{owner.get('name')}"
    node.jobs[key] = node.jobs.get(key, Decimal(0)) + amount


def _cells(node: Node, letters: Mapping[str, str], unit: Decimal) -> str:
    count = max(1, round(node.total / unit))
    cells = ""
    for name, held in sorted(node.jobs.items(), key=lambda each: letters.get(each[0], _MANY)):
        cells += letters.get(name, _MANY) * max(1, round(held / unit))
    cells += _OTHER * (max(1, round(node.others / unit)) if node.others else 0)
    return cells[:count].ljust(count, _AWAY if node.away else _FREE)


def _by_amount(nodes: Sequence[Node]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for node in nodes:
        for name, held in node.jobs.items():
            found[name] = found.get(name, Decimal(0)) + held
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _away(node: Object) -> str:
    if mapping(node.get("spec")).get("unschedulable"):
        return "cordoned"
    conditions = map(mapping, items(mapping(node.get("status")).get("conditions")))
    ready = next((each.get("status") for each in conditions if each.get("type") == "Ready"), None)
    return "" if ready in ("True", None) else "not ready"


def _allocatable(node: Object) -> Mapping[str, Any]:
    return mapping(mapping(node.get("status")).get("allocatable"))


def _amount(value: object) -> Decimal:
    try:
        return read_quantity(value) if isinstance(value, str | int | float) else Decimal(0)
    except ValueError:
        return Decimal(0)


def _number(value: Decimal) -> float | int:
    return int(value) if value == value.to_integral_value() else float(value)


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
