"""Jobs beside each other: a number of their reports, and what differs between them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import fmean
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_api.wording import span
from di_cli.views.reports import Reports, reported_name
from di_cli.views.scores import bootstrap_interval, interquartile_mean
from di_cli.views.spec_fields import fields_of

MOST: Final = 20
"""Maximum number of jobs in a comparison."""
DIFFERENCES: Final = ("FIELD", "VALUE", "JOBS")
_HEADER: Final = ("JOB", "VALUES", "LAST", "BEST", "AT", "LAST TENTH", "DURATION")
_OF_SEEDS: Final = ("SEEDS", "IQM", "95% INTERVAL")
_NONE: Final = "none"


class Axis(StrEnum):
    """Axis of the values of a curve."""

    STEP = "step"
    ENV_STEP = "env-step"
    TIME = "time"

    @property
    def column(self) -> str:
        """Return the name of its column in CSV, and under a picture."""
        return _COLUMNS[self]


_COLUMNS: Final = {Axis.STEP: "step", Axis.ENV_STEP: "envStep", Axis.TIME: "seconds"}


@dataclass(frozen=True, slots=True)
class Point:
    """A reported value.

    Attributes:
        step: None where none was reported.
        seconds: since the job's first report.
        env_step: environment steps; None where none were reported.
    """

    step: float | None
    seconds: float
    value: float
    env_step: float | None = None

    def place(self, axis: Axis) -> float | None:
        """Return its place on an axis."""
        match axis:
            case Axis.STEP:
                return self.step
            case Axis.ENV_STEP:
                return self.env_step
            case Axis.TIME:
                return self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A job of a comparison.

    Attributes:
        metric: name of the number as the job reports it; empty: it does not report it.
        points: its values, the oldest first.
        seconds: how long the job has run; None: unknown, or it never started.
        nodes: of its pods; None: they could not be read.
        fields: values of its spec by path, without seeds.
        seeds: values of the seeds in its spec.
        is_whole: whether the points are from di-history; else there is the last report alone.
    """

    name: str
    metric: str
    points: Sequence[Point]
    seconds: float | None
    nodes: Sequence[str] | None
    fields: Mapping[str, str]
    seeds: Sequence[str]
    is_whole: bool

    @property
    def last(self) -> float:
        """Return the last value; there must be one."""
        return self.points[-1].value

    @property
    def last_tenth(self) -> float:
        """Return the mean of the last tenth of the values, of one at least."""
        count = -(-len(self.points) // 10)
        return fmean(each.value for each in self.points[-count:])

    def by_place(self, axis: Axis) -> dict[float, float]:
        """Return the values by their places on an axis, without values that have none.

        A job that has repeated a step, such as after a restart, has its last value there.
        """
        return {
            place: point.value for point in self.points if (place := point.place(axis)) is not None
        }

    def best(self, *, lowest: bool) -> Point:
        """Return the first of the best values: the highest, or the lowest."""
        return (min if lowest else max)(self.points, key=lambda each: each.value)


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that differ in their seeds alone; a job without such others is a group of its own."""

    jobs: Sequence[Compared]

    @property
    def name(self) -> str:
        """Return the name of the first job, and how many others there are."""
        others = len(self.jobs) - 1
        return f"{self.jobs[0].name} +{others}" if others else self.jobs[0].name

    @property
    def measured(self) -> list[Compared]:
        """Return the jobs that have reported the number."""
        return [each for each in self.jobs if each.points]

    def curves(self, axis: Axis) -> list[list[tuple[float, float]]]:
        """Return the places and values of each job, in order of place."""
        return [sorted(each.by_place(axis).items()) for each in self.jobs]

    def mean(self, of: Callable[[Compared], float]) -> float | None:
        """Return the mean over the jobs with values; None without any."""
        found = [of(each) for each in self.measured]
        return fmean(found) if found else None

    def spread(self) -> tuple[float, tuple[float, float]] | None:
        """Return the interquartile mean over seeds of the means of the last tenth, and its
        bootstrap interval; None for fewer than two seeds with values.
        """
        scores = [each.last_tenth for each in self.measured]
        if len(scores) < 2:
            return None
        return interquartile_mean(scores), bootstrap_interval(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Some jobs beside each other.

    Attributes:
        wanted: the name of the number that was asked for.
        axis: of the places of values.
        lowest: whether the lowest value is the best one.
        notes: what is missing, and why.
    """

    wanted: str
    jobs: Sequence[Compared]
    axis: Axis = Axis.STEP
    lowest: bool = False
    notes: Sequence[str] = field(default_factory=list)

    def groups(self) -> list[Group]:
        """Return the jobs, those that differ in their seeds alone together.

        Two jobs with the same seeds are no independent runs, so they are in different groups.
        """
        found: dict[object, list[Compared]] = {}
        seen: Counter[object] = Counter()
        for job in self.jobs:
            spec = frozenset(job.fields.items())
            same = (spec, tuple(job.seeds))
            found.setdefault((spec, seen[same]), []).append(job)
            seen[same] += 1
        return [Group(jobs) for jobs in found.values()]

    def table(self) -> tuple[Sequence[str], list[tuple[str, ...]]]:
        """Return the header, and a row for each group; of several seeds it has means."""
        groups = self.groups()
        if all(len(each.jobs) == 1 for each in groups):
            return _HEADER, [self._row(each) for each in groups]
        return (*_HEADER, *_OF_SEEDS), [(*self._row(each), *_seeds(each)) for each in groups]

    def differences(self) -> dict[str, dict[str, str | None]]:
        """Return the fields in which the jobs differ: the value of each job, None without one."""
        by_job = {each.name: {**each.fields, **_facts(each)} for each in self.jobs}
        paths = dict.fromkeys(path for values in by_job.values() for path in values)
        found = {path: {name: by_job[name].get(path) for name in by_job} for path in paths}
        return {path: values for path, values in found.items() if len({*values.values()}) > 1}

    def difference_rows(self) -> list[tuple[str, ...]]:
        """Return a row for each value of each field that differs, with the jobs that have it."""
        rows: list[tuple[str, ...]] = []
        for path, values in self.differences().items():
            for number, value in enumerate(dict.fromkeys(values.values())):
                names = " ".join(name for name, own in values.items() if own == value)
                rows.append(("" if number else path, _NONE if value is None else value, names))
        return rows

    def csv_rows(self) -> list[list[str]]:
        """Return a header, and a row for each step (or time) with a column for each job."""
        columns = [each.by_place(self.axis) for each in self.jobs]
        places = sorted({place for column in columns for place in column})
        return [
            [self.axis.column, *(each.name for each in self.jobs)],
            *(
                [_exact(place), *(_exact(column.get(place)) for column in columns)]
                for place in places
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return everything but the curves, for programs."""
        return {
            "metric": self.wanted,
            "by": self.axis.value,
            "jobs": [self._job(each) for each in self.jobs],
            "groups": [_group(each) for each in self.groups()],
            "differences": self.differences(),
            "notes": [*self.notes],
        }

    def _row(self, group: Group) -> tuple[str, ...]:
        best = group.mean(lambda job: job.best(lowest=self.lowest).value)
        is_one = len(group.jobs) == 1 and group.measured
        at = group.jobs[0].best(lowest=self.lowest).place(self.axis) if is_one else None
        times = [each.seconds for each in group.jobs if each.seconds is not None]
        return (
            group.name,
            str(sum(len(each.points) for each in group.jobs)),
            _short(group.mean(lambda job: job.last)),
            _short(best),
            "" if at is None else span(at) if self.axis is Axis.TIME else _exact(at),
            _short(group.mean(lambda job: job.last_tenth)),
            span(fmean(times)) if times else "",
        )

    def _job(self, job: Compared) -> dict[str, Any]:
        best = job.best(lowest=self.lowest) if job.points else None
        return {
            "name": job.name,
            "metric": job.metric or None,
            "source": "history" if job.is_whole else "lastReport",
            "values": len(job.points),
            "last": job.last if job.points else None,
            "best": best.value if best else None,
            "bestAt": best.place(self.axis) if best else None,
            "meanOfLastTenth": job.last_tenth if job.points else None,
            "durationSeconds": job.seconds,
            "seeds": [*job.seeds],
        }


def compared(
    name: str,
    spec: Mapping[str, Any],
    reports: Reports,
    wanted: str,
    *,
    seconds: float | None,
    nodes: Iterable[str] | None,
    is_whole: bool,
) -> Compared:
    """Return a job for a comparison of one number of its reports, named in any spelling."""
    metric = reported_name(reports.names(), wanted) or ""
    fields, seeds = fields_of(spec)
    found, env_steps = reports.of(metric), reports.env_steps(metric)
    return Compared(
        name=name,
        metric=metric,
        points=[
            Point(step, _since(reports.times[0], at), value, env_step)
            for (at, step, value), env_step in zip(found, env_steps, strict=True)
        ],
        seconds=seconds,
        nodes=None if nodes is None else sorted({*nodes}),
        fields=fields,
        seeds=seeds,
        is_whole=is_whole,
    )


def nodes_of_pods(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the nodes of pods in the cluster."""
    nodes = (mapping(pod.get("spec")).get("nodeName") for pod in pods)
    return [str(each) for each in nodes if each]


def nodes_placed(history: Mapping[str, Any]) -> list[str]:
    """Return the nodes of all pods that di-history knows of a job."""
    return [str(node) for each in _placements(history) if (node := each.get("node"))]


def seconds_placed(history: Mapping[str, Any]) -> float | None:
    """Return the time from a deleted job's first pod to its end; None if it had no pod."""
    job = mapping(history.get("job"))
    ended = parse_time(job.get("completed")) or parse_time(job.get("deleted"))
    began = [at for each in _placements(history) if (at := parse_time(each.get("since")))]
    return max(0.0, (ended - min(began)).total_seconds()) if began and ended else None


def last_revision(history: Mapping[str, Any]) -> int | None:
    """Return the number of the last manifest that di-history has of a job; None without one."""
    revisions = map(mapping, items(history.get("revisions")))
    return max((int(each["number"]) for each in revisions if "number" in each), default=None)


def _placements(history: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(each) for each in items(history.get("placements"))]


def _facts(job: Compared) -> dict[str, str]:
    """Return what can differ beside the spec."""
    seeds = {"seed": " ".join(dict.fromkeys(job.seeds))} if job.seeds else {}
    return {**seeds, "nodes": "unknown" if job.nodes is None else " ".join(job.nodes) or _NONE}


def _seeds(group: Group) -> tuple[str, ...]:
    spread = group.spread()
    if spread is None:
        return ("", "", "")
    iqm, (low, high) = spread
    return str(len(group.measured)), _short(iqm), f"{_short(low)}..{_short(high)}"


def _group(group: Group) -> dict[str, Any]:
    iqm, interval = group.spread() or (None, None)
    return {
        "jobs": [each.name for each in group.jobs],
        "mean": group.mean(lambda job: job.last_tenth),
        "interquartileMean": iqm,
        "interval95": [*interval] if interval else None,
    }


def _since(first: datetime, at: datetime) -> float:
    return (at - first).total_seconds()


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _exact(value: float | None) -> str:
    """Return a number that reads back as the same one."""
    if value is None:
        return ""
    return str(int(value)) if value.is_integer() else repr(value)
