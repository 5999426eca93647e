"""Reads the pods of a time range, and what is known of their jobs, in few queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import orjson
from msgspec import DecodeError, Struct, field
from msgspec.json import Decoder
from sqlalchemy import Engine, Select, Text, cast, func, or_, select

from di_api.names import LABEL_QUEUE, LABEL_SWEEP
from di_history.packing import unpack
from di_history.records import EntryKind, Millis
from di_history.store.reader import ORDER, in_order
from di_history.store.tables import entries, jobs, placements, revisions, samples
from di_history.usage.states import spans
from di_history.usage.sums import By, Held, Job
from di_history.usage.useful import NO_REPORTS, Report, Reports, reports_of

MOST_PODS: Final = 500_000
"""Pods of one answer; more would hold too much memory and time."""
_AT_ONCE: Final = 5_000
_JOBS_AT_ONCE: Final = 32
"""Jobs whose reports are in memory as text; each can have megabytes."""
_REPORTS: Final = Decoder(list[Report])
_AUTHOR: Final = re.compile(r"([^()]+) \([^()]+\)")
"""`user (program)`, as revisions have it; with more parentheses it is ambiguous."""
_STATES: Final = tuple(each.value for each in (EntryKind.PHASE, EntryKind.GAP, EntryKind.DELETED))


class TooMany(Exception):
    """More pods than one answer can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for usage.

    Attributes:
        namespace: of the jobs; None: all.
        phases: whether GPU time is divided by the states of jobs.
        useful: whether it is divided by its use.
    """

    since: Millis
    until: Millis
    by: By = By.JOB
    namespace: str | None = None
    phases: bool = False
    useful: bool = False


def read_usage(engine: Engine, asked: Asked) -> tuple[list[Held], dict[str, Job]]:
    """Return the pods within the window, clipped to it, and their jobs by UID.

    Raises:
        TooMany: more than MOST_PODS.
    """
    where = [
        placements.c.since < asked.until,
        or_(placements.c.until.is_(None), placements.c.until > asked.since),
        *([placements.c.namespace == asked.namespace] if asked.namespace is not None else []),
    ]
    chosen = (
        *(placements.c[name] for name in ("job", "node", "task", "kind", "gpus")),
        *(placements.c.since, placements.c.until, jobs.c.namespace, jobs.c.name),
    )
    query = select(*chosen).join(jobs, jobs.c.uid == placements.c.job).where(*where)
    query = query.limit(MOST_PODS + 1)
    held: list[Held] = []
    names: dict[str, tuple[str, str]] = {}
    for job, node, task, kind, gpus, since, until, namespace, name in _rows(engine, query):
        names[job] = (namespace, name)
        held.append(
            Held(
                job,
                node,
                task,
                kind or "",
                gpus,
                max(since, asked.since),
                asked.until if until is None else min(until, asked.until),
            )
        )
    if len(held) > MOST_PODS:
        raise TooMany
    of_jobs = select(placements.c.job).where(*where).distinct()
    if asked.phases or asked.useful:
        with_gpus = of_jobs.where(placements.c.gpus > 0)
        timelines = dict(_timelines(engine, with_gpus))
        reports = dict(_reports(engine, with_gpus, asked)) if asked.useful else {}
    else:
        timelines, reports = {}, {}
    users = dict(_users(engine, of_jobs)) if asked.by is By.USER else {}
    is_manifest_read = asked.useful or asked.by in (By.QUEUE, By.SWEEP)
    facts = dict(_facts(engine, of_jobs)) if is_manifest_read else {}
    return held, {
        uid: Job(
            namespace=namespace,
            name=name,
            user=users.get(uid, ""),
            spans=spans(timelines.get(uid, ()), asked.until),
            reports=reports.get(uid, NO_REPORTS),
            **facts.get(uid, {}),
        )
        for uid, (namespace, name) in names.items()
    }


def user_of(who: str) -> str:
    """Return the user of a revision's author; empty if it is not known."""
    found = _AUTHOR.fullmatch(who)
    return found[1] if found else ""


def _timelines(engine: Engine, uids: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    query = (
        select(entries.c.job, entries.c.kind, entries.c.at, entries.c.data)
        .where(entries.c.job.in_(uids), entries.c.kind.in_(_STATES))
        .order_by(entries.c.job, *ORDER)
    )
    for uid, rows in groupby(_rows(engine, query), itemgetter(0)):
        named = ({"kind": kind, "at": at, "data": data} for _, kind, at, data in rows)
        yield uid, list(in_order(named))


def _reports(engine: Engine, uids: Any, asked: Asked) -> Iterator[tuple[str, Reports]]:
    """Yield the reports of each job; a row for each report would take half of an answer's time."""
    query = (
        select(
            samples.c.job,
            func.aggregate_strings(cast(samples.c.at, Text), ","),
            func.aggregate_strings(samples.c["values"], ","),
        )
        .where(samples.c.job.in_(uids), samples.c.at < asked.until)
        .group_by(samples.c.job)
    )
    for uid, times, values in _rows(engine, query, at_once=_JOBS_AT_ONCE):
        # Databases promise no order within a group.
        yield uid, reports_of(orjson.loads(f"[{times}]"), _REPORTS.decode(f"[{values}]"))


def _users(engine: Engine, uids: Any) -> Iterator[tuple[str, str]]:
    """Yield the users of first revisions."""
    query = select(revisions.c.job, revisions.c.who).where(
        revisions.c.job.in_(uids), revisions.c.number == 1
    )
    for uid, who in _rows(engine, query):
        yield uid, user_of(who)


def _facts(engine: Engine, uids: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield queue, sweep and roles by the newest revision, which always has its own manifest."""
    newest = (
        select(revisions.c.job, func.max(revisions.c.number).label("number"))
        .where(revisions.c.job.in_(uids))
        .group_by(revisions.c.job)
        .subquery()
    )
    query = select(revisions.c.job, revisions.c.manifest).join(
        newest, (newest.c.job == revisions.c.job) & (newest.c.number == revisions.c.number)
    )
    for uid, manifest in _rows(engine, query):
        yield uid, _of_manifest(unpack(manifest))


class _Labels(Struct):
    queue: str = field(name=LABEL_QUEUE, default="")
    sweep: str = field(name=LABEL_SWEEP, default="")


class _Metadata(Struct):
    labels: _Labels | None = None


class _Scheduling(Struct):
    queue: str | None = None


class _Task(Struct):
    type: str | None = None
    name: str | None = None


class _Spec(Struct):
    scheduling: _Scheduling | None = None
    tasks: list[_Task] | None = None


class _Manifest(Struct):
    """What counts of a manifest; the rest, such as templates of pods, is skipped unread."""

    metadata: _Metadata | None = None
    spec: _Spec | None = None


_MANIFESTS: Final = Decoder(_Manifest)


def _of_manifest(raw: bytes) -> dict[str, Any]:
    """Return queue, sweep and roles; nothing for a manifest of another shape, which can have come
    past a disabled webhook.
    """
    try:
        manifest = _MANIFESTS.decode(raw)
    except DecodeError:
        return {}
    labels = (manifest.metadata and manifest.metadata.labels) or _Labels()
    spec = manifest.spec or _Spec()
    return {
        "queue": labels.queue or (spec.scheduling and spec.scheduling.queue) or "",
        "sweep": labels.sweep,
        "roles": {each.name or each.type or "": each.type or "" for each in spec.tasks or ()},
    }


def _rows(engine: Engine, query: Select[Any], at_once: int = _AT_ONCE) -> Iterable[Any]:
    with engine.connect() as connection:
        result = connection.execution_options(yield_per=at_once).execute(query)
        for batch in result.partitions():
            yield from batch
