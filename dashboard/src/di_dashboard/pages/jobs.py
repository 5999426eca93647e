"""Pages that show jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from flask import Blueprint, Response, abort, render_template, request
from markupsafe import Markup

from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.status.shards import read_shard_counts
from di_api.wording import span
from di_cli.hints import with_options
from di_cli.views import events as event_rows
from di_cli.views.jobs import gpus_asked, has_samplers, row
from di_cli.views.pods import name_of
from di_cli.views.times import clock, local
from di_dashboard.cluster_cache.cache import job_topic
from di_dashboard.history.seen import uid_of
from di_dashboard.pages.parts import parts, rendered_once
from di_dashboard.views.curves import Chart, Points, as_csv, charts, steps, together
from di_dashboard.views.desired_pods import missing_pods
from di_dashboard.views.effects import possible
from di_dashboard.views.jobs import Filters, jobs_page, mood_of, start_of, tasks_of
from di_dashboard.views.pods import grid, in_table
from di_dashboard.views.story import Story, sentence
from di_dashboard.views.timeline import Timeline, timeline
from di_kube.resources import PODS

Object = Mapping[str, Any]

pages: Final = Blueprint("pages", __name__)
_EVENTS: Final = 100
_LONGEST_UID: Final = 80
_PATIENCE: Final = 5.0
"""Seconds for which a page of one job waits for the initial lists."""


@pages.get("/")
@rendered_once
def jobs() -> str:
    """Return the page of jobs, with filters."""
    here = parts()
    page = jobs_page(
        here.cluster_cache.entries(),
        Filters.read(request.args),
        here.now(),
        series=here.history.series,
        starts=here.outlooks.latest().starts,
    )
    return render_template("jobs.html", page=page, topic="jobs")


@pages.get("/jobs/<namespace>/<name>")
@rendered_once
def job(namespace: str, name: str) -> str:
    """Return the page of one job, from the cluster or from the history."""
    here, asked = parts(), request.args.get("uid", "")[:_LONGEST_UID]
    found = find_job(namespace, name)
    if found is None or (asked and asked != uid_of(found)):
        return _gone(namespace, name, asked)
    now, topic = here.now(), job_topic(namespace, name)
    why = here.explain(found)
    events = here.cluster_cache.events_of(namespace, name)
    pods = here.cluster_cache.pods_of(namespace, name)
    missing = missing_pods(found, map(name_of, pods), now) if _knows_pods() else ()
    usage = here.usage.of(namespace, name, gpus=gpus_asked(found) > 0)
    lines = grid(pods, now, missing, usage)
    story, wrong = here.stories.of(namespace, name, uid_of(found), topic)
    axis = timeline(found, events, here.history.changes(found), now, story)
    points = together(story.points, here.history.series(found).all_points())
    curves = charts(points, has_samplers=has_samplers(found))
    shown = row(found, now)
    return render_template(
        "job.html",
        job=found,
        uid=uid_of(found),
        row=shown,
        shards=read_shard_counts(mapping(found.get("status")), now),
        mood=mood_of(shown.phase, shown.reason),
        why=why,
        remedy=with_options(why.remedy, f"-n {namespace}"),
        when=[
            f"{clock(each.at)}, {span((now - each.at).total_seconds())} ago" if each.at else ""
            for each in why.evidence
        ],
        axis=axis,
        curves=curves,
        curves_json=_curves_json(axis, curves, story, points),
        story=story,
        history_wrong=wrong,
        lines=lines,
        rows=in_table(lines),
        tasks=tasks_of(found),
        labels=sorted(mapping(mapping(found.get("metadata")).get("labels")).items()),
        created=local(shown.created),
        starts=start_of(uid_of(found), here.outlooks.latest().starts),
        ended=local(shown.ended),
        is_live=shown.phase not in (Phase.SUCCEEDED, Phase.FAILED),
        events=event_rows.rows(events, now)[-_EVENTS:][::-1],
        actions=[] if here.read_only else possible(found),
        topic=topic,
    )


def _knows_pods() -> bool:
    """Return whether pods that are not in the cache do not exist."""
    cache = parts().cluster_cache
    return cache.is_complete and PODS.plural not in cache.unread


def _gone(namespace: str, name: str, uid: str) -> str:
    """Return the page of a job that the cluster no longer has."""
    here = parts()
    now, topic = here.now(), job_topic(namespace, name)
    story, wrong = here.stories.of(namespace, name, uid, topic)
    if story.is_empty:
        more = f" {wrong}" if wrong else ""
        abort(404, f"There is no job {name} in namespace {namespace} (any more).{more}")
    axis = timeline(
        {"metadata": {"creationTimestamp": story.job.get("created")}}, [], [], now, story
    )
    curves = charts(story.points)
    phase = str(story.job.get("phase") or Phase.PENDING)
    return render_template(
        "gone.html",
        ns=namespace,
        name=name,
        uid=str(story.job.get("uid") or uid),
        phase_name=phase,
        mood=mood_of(phase),
        sentence=sentence(story, now),
        story=story,
        history_wrong=wrong,
        axis=axis,
        curves=curves,
        curves_json=_curves_json(axis, curves, story, story.points),
        failures=sum(1 for each in story.happened if each.what == "pod failed"),
        is_live=False,
        topic=topic,
        view="gone",
    )


@pages.get("/jobs/<namespace>/<name>/yaml")
def manifest(namespace: str, name: str) -> Response:
    """Return a job as the API server has it, for people and for programs."""
    found = job_or_404(namespace, name)
    text = yaml.safe_dump(dict(found), sort_keys=False, allow_unicode=True)
    if request.args.get("raw") is not None:
        return Response(text, mimetype="text/plain")
    return Response(render_template("yaml.html", namespace=namespace, name=name, text=text))


@pages.get("/jobs/<namespace>/<name>/curves.csv")
def curves_csv(namespace: str, name: str) -> Response:
    """Return the numbers that a job has reported, a row for each time, for a spreadsheet."""
    here, asked = parts(), request.args.get("uid", "")[:_LONGEST_UID]
    found = find_job(namespace, name)
    is_there = found is not None and asked in ("", uid_of(found))
    uid = uid_of(found) if found is not None and is_there else asked
    story, _ = here.stories.of(namespace, name, uid, job_topic(namespace, name))
    if not is_there and story.is_empty:
        abort(404, f"There is no job {name} in namespace {namespace} (any more).")
    own = here.history.series(found).all_points() if found is not None and is_there else {}
    return Response(
        as_csv(together(story.points, own)),
        mimetype="text/csv",
        headers={"Content-Disposition": f'attachment; filename="{name}.csv"'},
    )


def job_or_404(namespace: str, name: str) -> Object:
    """Return the job, or raise 404 with the existing names."""
    found = find_job(namespace, name)
    if found is None:
        abort(404, f"There is no job {name} in namespace {namespace} (any more).")
    return found


def find_job(namespace: str, name: str) -> Object | None:
    """Return the job from the cluster, if it exists."""
    cluster_cache = parts().cluster_cache
    found = cluster_cache.job(namespace, name)
    if found is None and not cluster_cache.is_complete:
        # For example a page that was open before the process restarted.
        cluster_cache.wait_until_complete(_PATIENCE)
        found = cluster_cache.job(namespace, name)
    return found


def _curves_json(axis: Timeline, curves: Sequence[Chart], story: Story, points: Points) -> Markup:
    text = json.dumps(
        {
            "start": axis.start.timestamp(),
            "end": axis.end.timestamp(),
            "ticks": [at.timestamp() for _, at, _ in axis.ticks],
            "holes": [(each.since.timestamp(), each.until.timestamp()) for each in story.gaps],
            "steps": [[at, step] for at, step in steps(points)],
            "charts": [each.as_json() for each in curves],
        },
        separators=(",", ":"),
    )
    # It is placed in a script element, which no name of a job must close.
    return Markup(text.replace("<", "\\u003c"))
