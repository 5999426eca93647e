"""View model of the page of jobs: filters, order and pagination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.profilings import RETURN, find_metric
from di_api.wording import span
from di_cli.views.ends import End
from di_cli.views.jobs import Row, has_samplers, row, seconds_of
from di_cli.views.selection import Order, order_key
from di_dashboard.cluster_cache.entry import Entry
from di_dashboard.history.seen import counts_of, pods_in, uid_of
from di_dashboard.history.series import Series
from di_dashboard.views.sparks import Spark, spark

PAGE: Final = 50
"""Number of jobs per page."""
_LONGEST: Final = 200
"""Maximum length of a filter."""
_MOST_CHOICES: Final = 12
LONGER: Final[Mapping[str, float]] = {"1h": 3600, "1d": 86400, "7d": 604800}
"""Durations that the jobs can be filtered by, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters; as a URL query they can be shared.

    Attributes:
        label: `key=value`.
        longer: one of LONGER; only jobs that have run for at least this time.
        query: words in the name, namespace or labels.
        sort: an Order; empty: the newest first.
        page: the first is 1.
    """

    namespace: str = ""
    phase: str = ""
    label: str = ""
    owner: str = ""
    queue: str = ""
    longer: str = ""
    query: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def read(cls, arguments: Mapping[str, str]) -> Filters:
        """Parse the query of a URL; invalid values count as absent."""
        page = arguments.get("page", "")
        return cls(
            namespace=arguments.get("namespace", "")[:_LONGEST],
            phase=arguments.get("phase", "")[:_LONGEST],
            label=arguments.get("label", "")[:_LONGEST],
            owner=arguments.get("owner", "")[:_LONGEST],
            queue=arguments.get("queue", "")[:_LONGEST],
            longer=arguments.get("longer", "") if arguments.get("longer") in LONGER else "",
            query=arguments.get("q", "")[:_LONGEST],
            sort=arguments.get("sort", "") if arguments.get("sort") in [*Order] else "",
            page=max(1, int(page)) if page.isdecimal() and len(page) < 9 else 1,
        )

    def link(self, **changes: Any) -> str:
        """Return the query with changes; page 1 unless they set another."""
        found = replace(self, **{"page": 1, **changes})
        fields = {
            "q": found.query,
            "namespace": found.namespace,
            "phase": found.phase,
            "label": found.label,
            "owner": found.owner,
            "queue": found.queue,
            "longer": found.longer,
            "sort": found.sort,
            "page": "" if found.page == 1 else str(found.page),
        }
        return f"?{urlencode({key: value for key, value in fields.items() if value})}"

    @property
    def any(self) -> bool:
        """Return whether any filter is set."""
        return replace(self, page=1, sort="") != Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The pods of a task: running or succeeded ones, of the total."""

    name: str
    ready: int
    wanted: int
    is_short: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A row of the page.

    Attributes:
        row: as in `di list`.
        mood: category of its phase: "good", "busy", "waits", "bad", "over".
        gain, waiting: curves of its return and of its learner's waiting, if known.
        starts: its expected start as text; empty if unknown.
        ran: how long it has run as text; empty if it never started.
    """

    row: Row
    tasks: Sequence[Task]
    mood: str
    labels: Sequence[str]
    gain: Spark = field(default_factory=Spark)
    waiting: Spark = field(default_factory=Spark)
    starts: str = ""
    ran: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPage:
    """The content of the page.

    Attributes:
        total: number of all jobs.
        found: number of jobs after the filters.
        phases, namespaces, owners, queues, longer: number of jobs that a click would leave, by
            name.
    """

    filters: Filters
    rows: Sequence[JobRow]
    total: int
    found: int
    pages: int
    phases: Sequence[tuple[str, int]]
    namespaces: Sequence[tuple[str, int]]
    owners: Sequence[tuple[str, int]]
    queues: Sequence[tuple[str, int]]
    longer: Sequence[tuple[str, int]]


def jobs_page(
    entries: Sequence[Entry],
    filters: Filters,
    now: datetime,
    *,
    series: Callable[[Mapping[str, Any]], Series] = lambda _: Series(),
    starts: Mapping[str, End | None] | None = None,
) -> JobsPage:
    """Return the content; reads only the search fields of jobs that are not shown.

    Args:
        series: returns the reports of a job.
        starts: by UID, the end after which a waiting job is expected to start; None: at the
            allocator's next round.
    """
    words = filters.query.lower().split()
    label = tuple(filters.label.split("=", 1)) if "=" in filters.label else None
    kept = [
        each
        for each in entries
        if (label is None or label in each.labels) and all(word in each.words for word in words)
    ]
    by_namespace = [each for each in kept if filters.namespace in ("", each.namespace)]
    by_owner = [each for each in by_namespace if filters.owner in ("", each.owner)]
    by_queue = [each for each in by_owner if filters.queue in ("", each.queue)]
    here = [each for each in by_queue if _has_run(each, filters.longer, now)]
    found = [each for each in here if filters.phase in ("", each.phase)]
    if filters.sort:
        order = Order(filters.sort)
        found.sort(key=lambda each: order_key(each.job, order, now))
    pages = max(1, -(-len(found) // PAGE))
    page = min(filters.page, pages)
    shown = found[(page - 1) * PAGE : page * PAGE]
    return JobsPage(
        filters=replace(filters, page=page),
        rows=[_row(each, now, series(each.job), starts or {}) for each in shown],
        total=len(entries),
        found=len(found),
        pages=pages,
        phases=_counted((each.phase for each in here), [*Phase]),
        namespaces=_largest(each.namespace for each in kept),
        owners=_largest(each.owner for each in by_namespace if each.owner),
        queues=_largest(each.queue for each in by_owner if each.queue),
        longer=[
            (name, count)
            for name in LONGER
            if (count := sum(_has_run(each, name, now) for each in by_queue))
        ],
    )


def _has_run(entry: Entry, longer: str, now: datetime) -> bool:
    """Return whether a job has run for at least one of LONGER; always without one."""
    return not longer or (seconds_of(entry.job, now) or 0.0) >= LONGER[longer]


def mood_of(phase: str, reason: str = "") -> str:
    """Return the category of a phase, one word, which is never the only sign of it."""
    if phase == Phase.FAILED:
        return "bad"
    if phase == Phase.SUCCEEDED:
        return "over"
    if phase == Phase.RUNNING:
        return "good" if reason in ("", f"Job{phase}") else "busy"
    if phase in (Phase.STARTING, Phase.RESTARTING, Phase.RESCHEDULING):
        return "busy"
    return "waits"


def tasks_of(job: Mapping[str, Any]) -> list[Task]:
    """Return the tasks of a job; with a coordinator, its roles."""
    status = mapping(job.get("status"))
    wanted, ready = counts_of(job), pods_in(status, "Running", "Succeeded")
    found = []
    for name in (*wanted, *(each for each in ready if each not in wanted)):
        have = ready.get(name, 0)
        want = wanted.get(name, have)
        is_over = bool(status.get("completionTimestamp"))
        found.append(Task(name=name, ready=have, wanted=want, is_short=have < want and not is_over))
    return found


def start_of(uid: str, starts: Mapping[str, End | None]) -> str:
    """Return the expected start of a job as text; empty if unknown."""
    if uid not in starts:
        return ""
    end = starts[uid]
    return "starts at the next look" if end is None else f"starts {end.when()}"


def _row(entry: Entry, now: datetime, series: Series, starts: Mapping[str, End | None]) -> JobRow:
    job = entry.job
    found = row(job, now)
    waits = series.points("learnerWaitFrac") if has_samplers(job) else ()
    return JobRow(
        row=found,
        tasks=tasks_of(job),
        mood=mood_of(found.phase, found.reason),
        labels=sorted(f"{key}={value}" for key, value in entry.labels),
        gain=spark(series.points(find_metric(series.values, RETURN) or RETURN)),
        waiting=spark(waits, low=0.0, high=1.0),
        starts=start_of(uid_of(job), starts),
        ran="" if found.seconds is None else span(found.seconds),
    )


def _counted(values: Iterable[str], order: Sequence[str]) -> list[tuple[str, int]]:
    counts = Counter(values)
    return [(str(each), counts[each]) for each in order if counts[each]]


def _largest(values: Iterable[str]) -> list[tuple[str, int]]:
    return sorted(Counter(values).items(), key=lambda each: (-each[1], each[0]))[:_MOST_CHOICES]
