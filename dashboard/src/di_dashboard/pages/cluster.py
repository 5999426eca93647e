"""The page of the cluster: which jobs use which nodes, now and over time, the queues, and waiting
jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from flask import Blueprint, render_template, request

from di_api.field_error import items, mapping
from di_api.timestamps import format_time
from di_cli.views.allocation import nodes_of
from di_cli.views.jobs import GPU
from di_cli.views.queue import is_waiting
from di_dashboard.cluster_cache.cache import CLUSTER_TOPIC
from di_dashboard.history.kept import Told
from di_dashboard.pages.parts import Parts, parts, rendered_once
from di_dashboard.pages.stories import path_of
from di_dashboard.views.cluster import cluster_page
from di_dashboard.views.heat import HOURS, Heat, Stay, heat_map, moved, stays_of, timeline_of
from di_dashboard.views.queues import queues

cluster_pages: Final = Blueprint("cluster_pages", __name__)
_DEFAULT_HOURS: Final = 6
_STEP: Final = 15
"""Seconds by which the end of the heat map advances, so that several users send the same
request.
"""
_MOST_NAMESPACES: Final = 16
"""Maximum number of namespaces whose placements are requested, if all are shown."""
_MOST_CAUSES: Final = 8
"""Maximum number of jobs whose timelines are requested for the causes of moves."""
_CAUSES: Final = "scaling,failure,event,phase"
_LONGEST: Final = 40


@cluster_pages.get("/cluster")
@rendered_once
def cluster() -> str:
    """Return the page of the cluster."""
    here = parts()
    cluster_cache, now = here.cluster_cache, here.now()
    nodes, pods = cluster_cache.nodes(), cluster_cache.live_pods()
    jobs = [entry.job for entry in cluster_cache.entries() if not entry.has_finished]
    heat, wrong = _heat(here, now) if here.kept.is_asked else (None, [])
    outlook = here.outlooks.latest()
    page = cluster_page(
        nodes=nodes,
        live_pods=pods,
        jobs=jobs,
        asked=request.args.get("resource", ""),
        now=now,
        also=heat.keys if heat else (),
        starts=outlook.starts,
    )
    waits = Counter(
        str(mapping(job.get("metadata")).get("namespace") or "") for job in jobs if is_waiting(job)
    )
    found = nodes_of(nodes, pods, page.resource)
    return render_template(
        "cluster.html",
        page=page,
        heat=heat,
        heat_wrong=wrong,
        hours=_hours(),
        choices=HOURS,
        is_pinned="at" in request.args,
        outlook=outlook,
        queues=queues(found, waits, outlook.arguments),
        topic=CLUSTER_TOPIC,
    )


def _hours() -> int:
    text = request.args.get("hours", "")
    return int(text) if text in map(str, HOURS) else _DEFAULT_HOURS


def _heat(here: Parts, now: datetime) -> tuple[Heat, list[str]]:
    """Return the heat map, as far as the history has data, and sentences about the rest."""
    end = int(now.timestamp()) // _STEP * _STEP + _STEP
    until = datetime.fromtimestamp(end, UTC)
    since = until - timedelta(hours=_hours())
    namespaces = [here.namespace] if here.namespace else _namespaces(here)
    window = {"since": format_time(since), "until": format_time(until)}
    told = here.kept.all(
        [(each, "/placements", {"namespace": each, **window}) for each in namespaces], CLUSTER_TOPIC
    )
    stays = [stay for each in told for stay in stays_of(each.value.get("placements"))]
    heat = heat_map(
        stays,
        totals=_totals(here),
        timelines=_timelines(here, stays),
        since=since,
        until=until,
        at=_at(since, until),
    )
    return heat, _missing(dict(zip(namespaces, told, strict=True)))


def _missing(told: Mapping[str, Told]) -> list[str]:
    """Return a sentence for each reason why placements are missing, with its namespaces."""
    by_reason: dict[str, list[str]] = {}
    for namespace, each in told.items():
        if each.wrong:
            by_reason.setdefault("" if each.is_refused else each.wrong, []).append(namespace)
    return [
        f"The history of {', '.join(found)} is away: {reason}. It is missing here."
        if reason
        else f"You are not allowed to read the history of {', '.join(found)}."
        for reason, found in by_reason.items()
    ]


def _namespaces(here: Parts) -> list[str]:
    return sorted({entry.namespace for entry in here.cluster_cache.entries()})[:_MOST_NAMESPACES]


def _at(since: datetime, until: datetime) -> datetime:
    text = request.args.get("at", "")[:_LONGEST]
    last = until - timedelta(seconds=1)
    if not text.isdecimal() or len(text) > 11:
        return last
    return min(last, max(since, datetime.fromtimestamp(int(text), UTC)))


def _totals(here: Parts) -> dict[str, int]:
    found = {}
    for node in here.cluster_cache.nodes():
        amount = mapping(mapping(node.get("status")).get("allocatable")).get(GPU)
        if isinstance(amount, str) and amount.isdecimal():
            found[str(mapping(node.get("metadata")).get("name"))] = int(amount)
    return found


def _timelines(
    here: Parts, stays: Sequence[Stay]
) -> dict[str, list[tuple[datetime, Mapping[str, object]]]]:
    """Return the timelines of the jobs that moved last, by UID."""
    jobs = {after.uid: after.key for _, after in moved(stays)}
    chosen = [*jobs.items()][:_MOST_CAUSES]
    asked = []
    for uid, key in chosen:
        namespace, _, name = key.partition("/")
        asked.append((namespace, path_of(namespace, name), {"uid": uid, "kinds": _CAUSES}))
    told = here.kept.all(asked, CLUSTER_TOPIC)
    return {
        uid: [*timeline_of(each.value)]
        for (uid, _), each in zip(chosen, told, strict=True)
        if items(each.value.get("timeline"))
    }
