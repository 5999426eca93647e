"""The parsed history of a job: phases, happenings with their causes, gaps, curves, placements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_api.wording import span
from di_cli.views.history import deleter
from di_cli.views.times import clock

Object = Mapping[str, Any]
Point = tuple[float, float]

_NEAR: Final = timedelta(seconds=90)
"""Maximum time between a cause and its effect, and a little after: times are whole seconds."""
_AFTER: Final = timedelta(seconds=5)
_RESTART_REASONS: Final = frozenset({"JobRestarting", "JobFailed"})
_MOVE_REASONS: Final = frozenset({"JobRescheduling", "PodsDeleted", "PodsCreated", "StandIn"})
_CAUSES: Final = frozenset(
    {
        *("JobRescheduling", "PodRejected", "JobSuspended", "RestartRequested"),
        *("WaitingForNodes", "RefusedByScheduler", "GrantWithdrawn"),
    }
)
"""Events that explain a changed placement."""
_MOST_POINTS: Final = 960
_MOST_NAMES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Something that happened, from the history.

    Attributes:
        kind: "restart", "scale", "move", "warning", "gap" or "note".
        what: one word.
        lines: the last lines of a failed pod.
    """

    at: datetime
    kind: str
    what: str
    text: str
    count: int = 1
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time without observation.

    Attributes:
        changed: fields that differed afterwards; empty: the earlier state is unknown.
    """

    since: datetime
    until: datetime
    changed: Sequence[str]

    @property
    def text(self) -> str:
        """Return the gap as text."""
        length = span((self.until - self.since).total_seconds())
        if not self.changed:
            return f"nobody looked for {length}: what happened then is not known"
        return f"nobody looked for {length}; afterwards {', '.join(self.changed)} differed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A pod on a node, with a time range; `until` is absent while it is there."""

    pod: str
    task: str
    node: str
    since: datetime
    until: datetime | None
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A change of the manifest: its author, and its time."""

    number: int
    at: datetime | None
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The whole history of a job.

    Attributes:
        job: its fields `name`, `owner`, `created`, `completed`, `deleted`, `phase`.
        phases: the beginning of each.
        said: the operator's message for the last of these.
        points: of each reported number, and of the running pods by task ("ready TASK").
        logs: pod and container of each stored log; `lost` has those that are not stored, and why.
    """

    job: Object = field(default_factory=dict)
    phases: Sequence[tuple[datetime, str]] = ()
    said: str = ""
    happened: Sequence[Happened] = ()
    gaps: Sequence[Gap] = ()
    points: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    revisions: Sequence[Revision] = ()
    places: Sequence[Place] = ()
    logs: Sequence[tuple[str, str]] = ()
    lost: Sequence[tuple[str, str]] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether the history has nothing."""
        return not self.job

    @property
    def end(self) -> datetime | None:
        """Return when the job was over: it ended or was deleted."""
        return parse_time(self.job.get("completed")) or parse_time(self.job.get("deleted"))


def story_of(told: Object, series: Object) -> Story:
    """Parse the responses to `/jobs/NAMESPACE/NAME` and its `/series`, of any shape."""
    entries = [(at, each) for each, at in _timed(told.get("timeline"), "at")]
    places = [*_places(told)]
    kept = [*map(mapping, items(told.get("logs")))]
    return Story(
        job=mapping(told.get("job")),
        phases=[
            (at, str(each["phase"]))
            for at, each in entries
            if each.get("kind") == "phase" and each.get("phase")
        ],
        said=next(
            (
                _line(each.get("message"))
                for _, each in reversed(entries)
                if each.get("kind") == "phase"
            ),
            "",
        ),
        happened=[*_happened(entries)],
        gaps=[_gap(at, each) for at, each in entries if each.get("kind") == "gap"],
        points={**_reported(series), **_running(places)},
        revisions=[
            Revision(
                number=number, at=parse_time(each.get("at")), who=str(each.get("who") or "unknown")
            )
            for each in map(mapping, items(told.get("revisions")))
            if isinstance(number := each.get("number"), int)
        ],
        places=places,
        logs=[
            *dict.fromkeys(
                (str(each.get("pod")), str(each.get("container") or ""))
                for each in kept
                if not each.get("note")
            )
        ],
        lost=[(str(each.get("pod")), str(each["note"])) for each in kept if each.get("note")],
    )


def sentence(story: Story, now: datetime) -> str:
    """Return a sentence about a job that no longer exists."""
    name, phase = story.job.get("name"), str(story.job.get("phase") or "Pending")
    completed, deleted = (parse_time(story.job.get(key)) for key in ("completed", "deleted"))
    parts = []
    if completed is not None:
        parts.append(f"{phase.lower()} {span((now - completed).total_seconds())} ago")
    if deleted is not None:
        ago = f"{span((now - deleted).total_seconds())} ago"
        parts.append(f"was deleted {ago}" if parts else f"was deleted {ago} while it was {phase}")
    told = " and ".join(parts) or f"was {phase} when it was last seen"
    return f"{name} {told}." + (f" Its last message: {story.said}" if story.said else "")


def kind_of_event(reason: str, *, warns: bool) -> str:
    """Return the kind of an event for the timeline."""
    if reason in _RESTART_REASONS:
        return "restart"
    if reason in _MOVE_REASONS:
        return "move"
    return "warning" if warns else "note"


def nodes_in_words(by_task: object) -> str:
    """Return the number of replicas on each node as text."""
    counts: dict[str, int] = {}
    for nodes in mapping(by_task).values():
        for node, count in mapping(nodes).items():
            counts[str(node)] = counts.get(str(node), 0) + (count if isinstance(count, int) else 0)
    return ", ".join(f"{count} on {node}" for node, count in sorted(counts.items())) or "nowhere"


def cause_of_move(at: datetime, entries: Sequence[tuple[datetime, Object]]) -> str:
    """Return why a job's placement changed, from the entries of its timeline just before."""
    near = [(when, each) for when, each in entries if at - _NEAR <= when <= at + _AFTER]
    for when, each in reversed(near):
        match each.get("kind"):
            case "scaling":
                return _scaled(each)
            case "failure" if when <= at:
                return f"{each.get('pod')} failed ({_exit(each) or 'lost'})"
            case "event" | "phase" if each.get("reason") in _CAUSES:
                return f"{each['reason']}: {_line(each.get('message'))}"
            case _:
                pass
    return "the allocator assigned the nodes again; the job's own timeline has no other cause"


def _timed(entries: object, key: str) -> Iterator[tuple[Object, datetime]]:
    for each in map(mapping, items(entries)):
        if (at := parse_time(each.get(key))) is not None:
            yield each, at


def _happened(entries: Sequence[tuple[datetime, Object]]) -> Iterator[Happened]:
    restarts = [at for at, each in entries if each.get("reason") in _RESTART_REASONS]
    for at, each in entries:
        match each.get("kind"):
            case "failure":
                text = f"{each.get('pod') or 'a pod'}: {_exit(each) or 'lost'}"
                lines = [
                    line.partition(" ")[2] for line in str(each.get("lastLines") or "").splitlines()
                ]
                yield Happened(
                    at=at, kind="restart", what="pod failed", text=text, lines=lines[-3:]
                )
            case "restart" if not any(abs(at - other) < _AFTER for other in restarts):
                text = f"{each.get('restarts')} so far. {_line(each.get('message'))}".strip()
                yield Happened(at=at, kind="restart", what="restarted", text=text)
            case "scaling":
                yield Happened(at=at, kind="scale", what="scaled", text=_scaled(each))
            case "allocation":
                before, after = (nodes_in_words(each.get(key)) for key in ("before", "after"))
                text = f"{before} -> {after}. Why: {cause_of_move(at, entries)}"
                yield Happened(at=at, kind="move", what="placed", text=text)
            case "condition":
                kind = "warning" if each.get("status") == "True" else "note"
                text = f"is {each.get('status')}. {_line(each.get('message'))}".strip()
                yield Happened(at=at, kind=kind, what=str(each.get("type")), text=text)
            case "deleted":
                since = parse_time(each.get("after"))
                text = f"at some time since {clock(since)}; " if since else ""
                text += deleter(each)
                yield Happened(at=at, kind="note", what="deleted", text=text)
            case "gap":
                yield Happened(at=at, kind="gap", what="not seen", text=_gap(at, each).text)
            case "event" if str(each.get("object") or "").startswith("DIJob/"):
                yield _event(at, each)
            case _:
                # Phases are on the axis.
                pass


def _gap(at: datetime, entry: Object) -> Gap:
    since = parse_time(entry.get("from")) or at
    return Gap(since=min(since, at), until=at, changed=[*map(str, items(entry.get("changed")))])


def _event(at: datetime, entry: Object) -> Happened:
    reason, count = str(entry.get("reason") or ""), entry.get("count")
    return Happened(
        at=at,
        kind=kind_of_event(reason, warns=entry.get("type") == "Warning"),
        what=reason,
        text=_line(entry.get("message")),
        count=count if isinstance(count, int) else 1,
    )


def _scaled(entry: Object) -> str:
    who = f", asked by {entry['who']}" if entry.get("who") else ""
    return f"{entry.get('task')} {entry.get('before')} -> {entry.get('after')}{who}"


def _exit(entry: Object) -> str:
    code, reason = entry.get("exitCode"), str(entry.get("reason") or "")
    ended = f"exit code {code}" if isinstance(code, int) else ""
    return ", ".join(part for part in (ended, reason) if part)


def _line(text: object) -> str:
    return " ".join(str(text or "").split())


def _places(told: Object) -> Iterator[Place]:
    for each, since in _timed(told.get("placements"), "since"):
        code = each.get("exitCode")
        ended = [str(each.get(key) or "") for key in ("outcome", "reason")]
        if isinstance(code, int) and code:
            ended.append(f"exit code {code}")
        yield Place(
            pod=str(each.get("pod") or ""),
            task=str(each.get("task") or ""),
            node=str(each.get("node") or ""),
            since=since,
            until=parse_time(each.get("until")),
            outcome=", ".join(part for part in ended if part),
        )


def _reported(series: Object) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    samples = [*_timed(series.get("samples"), "at")]
    for sample, at in samples[:: max(1, -(-len(samples) // _MOST_POINTS))]:
        for name, value in mapping(sample.get("values")).items():
            is_known = name in found or len(found) < _MOST_NAMES
            if is_known and isinstance(value, int | float):
                found.setdefault(str(name), []).append((at.timestamp(), float(value)))
    return found


def _running(places: Iterable[Place]) -> dict[str, list[Point]]:
    """Return the number of pods of each task on nodes, at each change."""
    turns: dict[str, list[tuple[float, int]]] = {}
    for each in places:
        if not each.task:
            continue
        of_task = turns.setdefault(each.task, [])
        of_task.append((each.since.timestamp(), 1))
        if each.until is not None:
            of_task.append((each.until.timestamp(), -1))
    found: dict[str, list[Point]] = {}
    for task, changes in turns.items():
        points: list[Point] = []
        count = 0
        for at, change in sorted(changes):
            count += change
            if points and points[-1][0] == at:
                points[-1] = (at, float(count))
            else:
                points.append((at, float(count)))
        found[f"ready {task}"] = points[-_MOST_POINTS:]
    return found
