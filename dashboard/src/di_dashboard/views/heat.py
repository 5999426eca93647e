"""Heat map of nodes over time: how much of each a job used, and why its pods moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_cli.views.times import clock, local
from di_dashboard.views.story import cause_of_move

Object = Mapping[str, Any]

HOURS: Final = (1, 6, 24, 168)
MOST_NODES: Final = 200
MOST_PIECES: Final = 4000
MOST_MOVES: Final = 100
_TICKS: Final = 6
_TOGETHER: Final = timedelta(minutes=10)
"""A pod that begins this soon after another of its rank has ended counts as its successor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A pod on a node, with a time range.

    Attributes:
        key: `<namespace>/<name>` of its job.
        seat: its place in the job, independent of the pod's name.
        until: absent while it is there.
        ended: how it ended, as text.
    """

    key: str
    uid: str
    pod: str
    seat: tuple[str, str]
    node: str
    gpus: int
    since: datetime
    until: datetime | None
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatPiece:
    """Use of a node by a job for a time: percent of the node's line, and of the time axis."""

    key: str
    left: float
    width: float
    top: float
    height: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatLine:
    """A node.

    Attributes:
        label: the same as text.
        then: the users at the selected time.
    """

    name: str
    pieces: Sequence[HeatPiece]
    label: str
    then: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A pod that moved from one node to another, and why; `left` is percent of the time axis."""

    at: datetime
    left: float
    clock: str
    key: str
    uid: str
    pod: str
    origin: str
    target: str
    why: str

    @property
    def text(self) -> str:
        """Return the move as text."""
        return f"{self.clock} {self.pod} moved from {self.origin} to {self.target}. Why: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """The heat map.

    Attributes:
        at: the selected time.
        unit: "GPUs", or "pods" if no node has GPUs.
        moves: the latest first; `more_moves` counts those left out.
    """

    since: datetime
    until: datetime
    at: datetime
    at_left: float
    at_text: str
    unit: str
    lines: Sequence[HeatLine]
    ticks: Sequence[tuple[float, str]]
    moves: Sequence[Move]
    more_moves: int
    more_nodes: int

    @property
    def keys(self) -> list[str]:
        """Return the jobs on it, by name."""
        return sorted({piece.key for line in self.lines for piece in line.pieces})


Timeline = Sequence[tuple[datetime, Object]]


def stays_of(placements: object) -> list[Stay]:
    """Parse `/placements` of the history; entries without a time or node are left out."""
    found = []
    for each in map(mapping, items(placements)):
        since, node = parse_time(each.get("since")), str(each.get("node") or "")
        if since is None or not node:
            continue
        pod, rank, gpus = str(each.get("pod") or ""), each.get("rank"), each.get("gpus")
        ended = [str(each.get(key) or "") for key in ("outcome", "reason")]
        if isinstance(code := each.get("exitCode"), int) and code:
            ended.append(f"exit code {code}")
        found.append(
            Stay(
                key=f"{each.get('namespace')}/{each.get('name')}",
                uid=str(each.get("job") or ""),
                pod=pod,
                seat=(str(each.get("task") or ""), pod if rank is None else str(rank)),
                node=node,
                gpus=gpus if isinstance(gpus, int) else 0,
                since=since,
                until=parse_time(each.get("until")),
                ended=", ".join(part for part in ended if part),
            )
        )
    return found


def moved(stays: Iterable[Stay]) -> list[tuple[Stay, Stay]]:
    """Return the pods that moved between nodes, the latest first: before and after."""
    by_seat: dict[tuple[str, tuple[str, str]], list[Stay]] = {}
    for each in stays:
        by_seat.setdefault((each.uid, each.seat), []).append(each)
    found = []
    for seat in by_seat.values():
        seat.sort(key=lambda each: each.since)
        for before, after in pairwise(seat):
            gone = before.until
            if gone and before.node != after.node and after.since - gone < _TOGETHER:
                found.append((before, after))
    return sorted(found, key=lambda each: each[1].since, reverse=True)


def timeline_of(told: Object) -> Timeline:
    """Return the entries of a job's timeline with their times, for the search of causes."""
    return [
        (at, each)
        for each in map(mapping, items(told.get("timeline")))
        if (at := parse_time(each.get("at")))
    ]


def heat_map(
    stays: Sequence[Stay],
    *,
    totals: Mapping[str, int],
    timelines: Mapping[str, Timeline],
    since: datetime,
    until: datetime,
    at: datetime,
) -> Heat:
    """Return the heat map.

    Args:
        totals: present GPUs of nodes; for other nodes the largest used number counts.
        timelines: entries by the UID of a job, for the causes of its moves.
        at: the selected time.
    """
    has_gpus = any(each.gpus for each in stays)
    seconds = max(1.0, (until - since).total_seconds())

    def left(moment: datetime) -> float:
        share = (moment - since).total_seconds() / seconds
        return round(100 * min(1.0, max(0.0, share)), 3)

    by_node: dict[str, list[Stay]] = {}
    for each in stays:
        if each.since < until and (each.until is None or each.until > since):
            by_node.setdefault(each.node, []).append(each)
    lines, room = [], MOST_PIECES
    for name in sorted(by_node)[:MOST_NODES]:
        steps = [*_steps(by_node[name], since, until, has_gpus=has_gpus)]
        whole = max([totals.get(name, 0) if has_gpus else 0, *(sum(s[2].values()) for s in steps)])
        pieces = [*_pieces(steps, max(1, whole), left)][:room]
        room -= len(pieces)
        then = next((held for start, end, held in steps if start <= at < end), {})
        said = [f"{key}: {amount}" for key, amount in then.items()]
        lines.append(
            HeatLine(
                name=name,
                pieces=pieces,
                label=f"{name} at {clock(at)}: {', '.join(said) or 'no job'}",
                then=[*then.items()],
            )
        )
    pairs = [each for each in moved(stays) if since <= each[1].since <= until]
    return Heat(
        since=since,
        until=until,
        at=at,
        at_left=left(at),
        at_text=local(at),
        unit="GPUs" if has_gpus else "pods",
        lines=lines,
        ticks=[
            (round(100 * step / _TICKS, 3), _tick(since + (until - since) * step / _TICKS, seconds))
            for step in range(_TICKS + 1)
        ],
        moves=[
            _move(before, after, timelines.get(after.uid, ()), left)
            for before, after in pairs[:MOST_MOVES]
        ],
        more_moves=max(0, len(pairs) - MOST_MOVES),
        more_nodes=max(0, len(by_node) - MOST_NODES),
    )


_Step = tuple[datetime, datetime, dict[str, int]]


def _steps(
    stays: Iterable[Stay], since: datetime, until: datetime, *, has_gpus: bool
) -> Iterator[_Step]:
    """Yield the times between two changes, with what each job used."""
    turns: list[tuple[datetime, str, int]] = []
    for each in stays:
        amount = each.gpus if has_gpus else 1
        if amount:
            turns.append((max(each.since, since), each.key, amount))
            turns.append((min(each.until or until, until), each.key, -amount))
    held: dict[str, int] = {}
    last = since
    for at, key, change in sorted(turns):
        if at > last:
            yield last, at, {name: held[name] for name in sorted(held) if held[name] > 0}
            last = at
        held[key] = held.get(key, 0) + change
    if last < until:
        yield last, until, {name: held[name] for name in sorted(held) if held[name] > 0}


def _pieces(steps: Iterable[_Step], whole: int, left: Any) -> Iterator[HeatPiece]:
    """Yield a piece for each period in which a job used the same amount at the same height."""
    open_: dict[tuple[str, float, int], tuple[datetime, datetime]] = {}
    done: list[tuple[str, float, int, datetime, datetime]] = []
    for start, end, held in steps:
        now: dict[tuple[str, float, int], tuple[datetime, datetime]] = {}
        top = 0.0
        for key, amount in held.items():
            place = (key, round(top, 3), amount)
            now[place] = (open_.pop(place)[0] if place in open_ else start, end)
            top += 100 * amount / whole
        done += [(*place, *times) for place, times in open_.items()]
        open_ = now
    done += [(*place, *times) for place, times in open_.items()]
    for key, top, amount, start, end in sorted(done, key=lambda each: each[3]):
        x, right = left(start), left(end)
        if right > x:
            yield HeatPiece(
                key=key,
                left=x,
                width=round(right - x, 3),
                top=top,
                height=round(100 * amount / whole, 3),
                title=f"{key}: {amount} of {whole}, {clock(start)} to {clock(end)}",
            )


def _move(before: Stay, after: Stay, timeline: Timeline, left: Any) -> Move:
    why = cause_of_move(after.since, timeline) if timeline else ""
    if before.ended and not why.startswith(before.pod):
        why = f"its pod ended there ({before.ended}). {why}".strip()
    return Move(
        at=after.since,
        left=left(after.since),
        clock=clock(after.since),
        key=after.key,
        uid=after.uid,
        pod=after.pod,
        origin=before.node,
        target=after.node,
        why=why or "nobody says",
    )


def _tick(at: datetime, seconds: float) -> str:
    return local(at)[5:16] if seconds > 86_400 else clock(at)[:5]
