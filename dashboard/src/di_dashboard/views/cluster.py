"""View model of the cluster: which jobs use which nodes, and waiting jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from di_api.field_error import mapping
from di_cli.views.allocation import Node, nodes_of, resource_of, text
from di_cli.views.ends import End
from di_cli.views.queue import Waiting, waiting

Object = Mapping[str, Any]

COLOURS: Final = 12
"""Number of colors for jobs; with more jobs they repeat, and the letters continue."""
MOST_NODES: Final = 500
MOST_WAITING: Final = 100
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a node; `left` and `width` are percent of it.

    Attributes:
        colour: of the job, 0 to COLOURS - 1; -1: pods of no job.
    """

    holder: str
    letter: str
    colour: int
    left: float
    width: float
    amount: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A node, and its users.

    Attributes:
        label: the same as text.
    """

    name: str
    away: str
    held: str
    total: str
    pieces: Sequence[Piece]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A job in the legend."""

    namespace: str
    name: str
    letter: str
    colour: int
    amount: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPage:
    """The content of the page.

    Attributes:
        resources: resources of nodes that can be shown.
        closed: the unused amount of nodes that accept no pods; empty: there is none.
        more_nodes, more_waiting: numbers of those not shown.
        marks: letter and color of each job, by `<namespace>/<name>`.
    """

    resource: str
    resources: Sequence[str]
    nodes: Sequence[NodeLine]
    holders: Sequence[Holder]
    held: str
    free: str
    closed: str
    total: str
    waiting: Sequence[Waiting]
    more_nodes: int
    more_waiting: int
    marks: Mapping[str, tuple[str, int]]


def cluster_page(
    *,
    nodes: Sequence[Object],
    live_pods: Sequence[Object],
    jobs: Iterable[Object],
    asked: str,
    now: datetime,
    also: Iterable[str] = (),
    starts: Mapping[str, End | None] | None = None,
) -> ClusterPage:
    """Return the content.

    Args:
        live_pods: that have not ended; the others use nothing.
        also: `<namespace>/<name>` of jobs that get a letter and color although they use nothing.
        starts: by UID, the end after which a waiting job is expected to start.
    """
    resources = sorted({name for node in nodes for name in _allocatable(node)})
    resource = resource_of(nodes, asked if asked in resources else None)
    found = nodes_of(nodes, live_pods, resource)
    order = _holders(found)
    marks = {name: (_letter(i), i % COLOURS) for i, name in enumerate(sorted({*order, *also}))}
    waits = waiting(jobs, now, starts or {})
    unused = (max(Decimal(0), node.total - node.held) for node in found if node.away)
    closed = sum(unused, Decimal(0))
    return ClusterPage(
        resource=resource,
        resources=resources,
        nodes=[_line(node, marks) for node in found[:MOST_NODES]],
        holders=[_holder(name, amount, marks, found) for name, amount in order.items()],
        held=text(sum((node.held for node in found), Decimal(0))),
        free=text(sum((node.free for node in found), Decimal(0))),
        closed=text(closed) if closed else "",
        total=text(sum((node.total for node in found), Decimal(0))),
        waiting=waits[:MOST_WAITING],
        more_nodes=max(0, len(found) - MOST_NODES),
        more_waiting=max(0, len(waits) - MOST_WAITING),
        marks=marks,
    )


def _line(node: Node, marks: Mapping[str, tuple[str, int]]) -> NodeLine:
    pieces: list[Piece] = []
    left = Decimal(0)
    held = [(name, *marks[name], amount) for name, amount in node.jobs.items()]
    held.sort(key=lambda each: (len(each[1]), each[1]))
    if node.others:
        held.append(("pods of no job", "", -1, node.others))
    whole = max(node.total, node.held)
    for holder, letter, colour, amount in held:
        pieces.append(
            Piece(
                holder=holder,
                letter=letter,
                colour=colour,
                left=round(float(100 * left / whole), 3),
                width=round(float(100 * amount / whole), 3),
                amount=text(amount),
            )
        )
        left += amount
    said = [f"{piece.holder} {piece.amount}" for piece in pieces]
    said += [f"free {text(node.free)}"] if node.free else []
    said += [node.away] if node.away else []
    return NodeLine(
        name=node.name,
        away=node.away,
        held=text(node.held),
        total=text(node.total),
        pieces=pieces,
        label=f"{node.name}: {', '.join(said) or 'nothing'}",
    )


def _holders(nodes: Iterable[Node]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for node in nodes:
        for name, amount in node.jobs.items():
            found[name] = found.get(name, Decimal(0)) + amount
    # By name and not by amount: a job keeps its letter while others grow and shrink.
    return dict(sorted(found.items()))


def _holder(
    key: str, amount: Decimal, marks: Mapping[str, tuple[str, int]], nodes: Iterable[Node]
) -> Holder:
    namespace, _, name = key.partition("/")
    letter, colour = marks[key]
    return Holder(
        namespace=namespace,
        name=name,
        letter=letter,
        colour=colour,
        amount=text(amount),
        nodes=sum(1 for node in nodes if node.jobs.get(key)),
    )


def _letter(index: int) -> str:
    more, last = divmod(index, len(_LETTERS))
    return f"{_letter(more - 1) if more else ''}{_LETTERS[last]}"


def _allocatable(node: Object) -> Mapping[str, Any]:
    return mapping(mapping(node.get("status")).get("allocatable"))


def _phase(pod: Object) -> object:
    return mapping(pod.get("status")).get("phase")
