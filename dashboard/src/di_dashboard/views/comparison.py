"""View model of the page that compares jobs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import isfinite, isnan
from typing import Any, Final
from urllib.parse import urlencode

from di_api.profilings import RETURN, find_metric
from di_cli.views.comparison import MOST, Axis, Compared, Comparison, Group
from di_cli.views.reports import Reports
from di_dashboard.history.series import Series
from di_dashboard.views.bands import Curve, band, smoothed, thinned
from di_dashboard.views.curves import READY, measurements

MOST_NAMES: Final = 200
"""Maximum number of metrics to choose from."""
MOST_DIFFERENCES: Final = 200
"""Maximum number of rows of differences."""
LONGEST_VALUE: Final = 300
"""Maximum length of a value in the table of differences."""
MOST_SMOOTH: Final = 0.98
_LONGEST: Final = 200
_LONGEST_JOB: Final = 400
_COLOURS: Final = 6
_SHORT: Final = ("IQM",)
"""Headers that are abbreviations."""
_NOUNS: Final = {Axis.STEP: "a step", Axis.ENV_STEP: "environment steps", Axis.TIME: "a time"}
USUAL: Final = "return"
"""The return of an episode, however a program names it."""
Object = Mapping[str, Any]


class BadChoice(ValueError):
    """The query of a comparison is invalid; has what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A job to compare.

    Attributes:
        uid: empty: the job in the cluster, else the last one with that name.
    """

    namespace: str
    name: str
    uid: str = ""

    @property
    def query(self) -> str:
        """Return the value of `job` in a query."""
        return "/".join(part for part in (self.namespace, self.name, self.uid) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The jobs and options of a comparison; as a URL query they can be shared.

    Attributes:
        metric: in any spelling; empty: the most important one.
        axis: None: steps, or time if no job has reported steps.
        smooth: weight of the moving average, from 0 to MOST_SMOOTH.
        is_log: whether the axis of values is logarithmic.
        is_each: whether each job has a curve of its own, in place of a mean over seeds.
        is_lowest: whether the lowest value is the best one.
    """

    jobs: Sequence[Chosen]
    metric: str = ""
    axis: Axis | None = None
    smooth: float = 0.0
    is_log: bool = False
    is_each: bool = False
    is_lowest: bool = False

    @classmethod
    def read(cls, jobs: Iterable[str], arguments: Mapping[str, str]) -> Choice:
        """Parse the query of a URL; an invalid value beside the jobs counts as absent.

        Args:
            jobs: the values of `job`.

        Raises:
            BadChoice: there are too few or too many jobs, or one is not NAMESPACE/NAME.
        """
        chosen = [*dict.fromkeys(map(_chosen, jobs))]
        if not 2 <= len(chosen) <= MOST:
            raise BadChoice(
                f"Choose 2 to {MOST} jobs to compare, not {len(chosen)}: tick them in the list of "
                "jobs, or write job=NAMESPACE/NAME for each into the address."
            )
        axis = arguments.get("by", "")
        return cls(
            jobs=chosen,
            metric=arguments.get("metric", "")[:_LONGEST],
            axis=Axis(axis) if axis in {*Axis} else None,
            smooth=_share(arguments.get("smooth", "")),
            is_log=bool(arguments.get("log")),
            is_each=bool(arguments.get("each")),
            is_lowest=bool(arguments.get("lowest")),
        )

    def without(self, job: Chosen) -> str:
        """Return the query without a job; empty if too few would be left."""
        rest = [each for each in self.jobs if each != job]
        return replace(self, jobs=rest).query if len(rest) > 1 else ""

    @property
    def query(self) -> str:
        """Return the query."""
        fields = [
            *(("job", each.query) for each in self.jobs),
            ("metric", self.metric),
            ("by", self.axis or ""),
            ("smooth", f"{self.smooth:g}" if self.smooth else ""),
            *((key, "1" if is_set else "") for key, is_set in self._flags()),
        ]
        return f"?{urlencode([pair for pair in fields if pair[1]], safe='/')}"

    def _flags(self) -> tuple[tuple[str, bool], ...]:
        return ("log", self.is_log), ("each", self.is_each), ("lowest", self.is_lowest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve of the plot, or a mean with its band.

    Attributes:
        number: of its color and dashes.
        low, high: of the band; empty for the curve of one job.
    """

    label: str
    number: int
    points: Curve
    low: Curve = ()
    high: Curve = ()

    def as_json(self) -> dict[str, Any]:
        """Return the line as JSON for the script that draws it."""
        return {
            "label": self.label,
            "number": self.number,
            "points": self.points,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A job in the table of results; `key` is the CSS class of its own curve, if it has one."""

    name: str
    job: Chosen
    without: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """A row of the table of results; `key` is the CSS class of its curve, if it has one."""

    key: str
    cells: Sequence[str]
    members: Sequence[Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPage:
    """The content of the page.

    Attributes:
        metric: as it is asked for.
        metrics: names to choose from, `metric` among them.
        header: of the table of results.
        differences: field, value, and jobs that have it; the field is empty if it is the one above.
        left_out: number of rows of differences that are not shown.
    """

    metric: str
    metrics: Sequence[str]
    header: Sequence[str]
    rows: Sequence[ResultRow]
    lines: Sequence[Line]
    differences: Sequence[Sequence[str]]
    left_out: int
    notes: Sequence[str]


def names_of(jobs: Sequence[Chosen]) -> list[str]:
    """Return a name for each job that no other one has: with its namespace or UID where needed."""
    one_namespace = len({each.namespace for each in jobs}) == 1
    found = [each.name if one_namespace else f"{each.namespace}/{each.name}" for each in jobs]
    times = Counter(found)
    return [
        name if times[name] == 1 else f"{name} ({each.uid or 'last'})"
        for name, each in zip(found, jobs, strict=True)
    ]


def reports_of(answer: Object, seen: Series) -> Reports:
    """Return the reports of a job in the history, and later ones that this process has seen."""
    found = Reports()
    found.read(answer)
    last = found.times[-1].timestamp() if found.times else 0.0
    for place, at in enumerate(seen.times):
        # Both have the time of a report's arrival, except for fractions of a second.
        if at <= last + 1.0:
            continue
        numbers = {
            name: column[place]
            for name, column in seen.values.items()
            if not name.startswith(READY) and not isnan(column[place])
        }
        if numbers:
            found.add(datetime.fromtimestamp(at, UTC), numbers)
    return found


def metrics_of(reports: Iterable[Reports]) -> list[str]:
    """Return the names of the numbers that jobs have reported, the most important first.

    The return of an episode is `return`, because each program may have another name for it.
    """
    names = [*dict.fromkeys(name for each in reports for name in each.names())]
    found = measurements(names)
    return [USUAL, *found] if find_metric(names, RETURN) else found


def axis_of(jobs: Iterable[Compared]) -> Axis:
    """Return the axis without a choice: steps, or time if all values are without steps."""
    steps = [point.step for job in jobs for point in job.points]
    return Axis.STEP if not steps or any(step is not None for step in steps) else Axis.TIME


def notes_of(job: Compared, axis: Axis, wanted: str) -> list[str]:
    """Return what is missing of a job."""
    if not job.points:
        return [f"{job.name} has not reported {wanted}."]
    if any(each.place(axis) is None for each in job.points):
        return [f"{job.name} has values without {_NOUNS[axis]}; by time has all of them."]
    return []


def comparison_page(
    found: Comparison, choice: Choice, known: Mapping[str, Chosen], metrics: Iterable[str]
) -> ComparisonPage:
    """Return the page of a comparison.

    Args:
        known: the jobs by their names in the comparison.
        metrics: names of all numbers that the jobs have reported.
    """
    groups = found.groups()
    header, cells = found.table()
    numbers = _numbers(groups, is_each=choice.is_each)
    differences = found.difference_rows()
    return ComparisonPage(
        metric=found.wanted,
        metrics=[*dict.fromkeys((*[*metrics][:MOST_NAMES], found.wanted))],
        header=[each if each in _SHORT else each.capitalize() for each in header],
        rows=[
            ResultRow(
                key=_key(numbers.get(group.name)),
                cells=row,
                members=[
                    Member(
                        name=each.name,
                        job=known[each.name],
                        without=choice.without(known[each.name]),
                        key=_key(numbers.get(each.name)) if len(group.jobs) > 1 else "",
                    )
                    for each in group.jobs
                ],
            )
            for group, row in zip(groups, cells, strict=True)
        ],
        lines=[
            line
            for group in groups
            for line in _lines(group, found.axis, choice, numbers)
            if line.points
        ],
        differences=[[_cut(cell) for cell in row] for row in differences[:MOST_DIFFERENCES]],
        left_out=max(0, len(differences) - MOST_DIFFERENCES),
        notes=found.notes,
    )


def _numbers(groups: Sequence[Group], *, is_each: bool) -> Mapping[str, int]:
    """Return the number of each line by its label."""
    labels = (
        label
        for group in groups
        for label in ([job.name for job in group.jobs] if is_each else [group.name])
    )
    return {label: number for number, label in enumerate(labels)}


def _lines(group: Group, axis: Axis, choice: Choice, numbers: Mapping[str, int]) -> Iterable[Line]:
    curves = [smoothed(each, choice.smooth) for each in group.curves(axis)]
    if not choice.is_each and len(group.jobs) > 1:
        points = band(curves)
        if points:
            yield Line(
                label=group.name,
                number=numbers[group.name],
                points=[(each.place, each.mean) for each in points],
                low=[(each.place, each.low) for each in points],
                high=[(each.place, each.high) for each in points],
            )
            return
    for job, curve in zip(group.jobs, curves, strict=True):
        # Of seeds without common places each is drawn.
        number = numbers[job.name] if choice.is_each else numbers[group.name]
        yield Line(label=job.name, number=number, points=thinned(curve))


def _key(number: int | None) -> str:
    """Return the CSS classes of a line."""
    return "" if number is None else f"key k{number % _COLOURS} d{number // _COLOURS}"


def _chosen(text: str) -> Chosen:
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts) or len(text) > _LONGEST_JOB:
        raise BadChoice(f"job={text[:_LONGEST_JOB]} is not NAMESPACE/NAME or NAMESPACE/NAME/UID.")
    return Chosen(*parts)


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return min(MOST_SMOOTH, max(0.0, found)) if isfinite(found) else 0.0


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
