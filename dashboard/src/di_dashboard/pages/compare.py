"""The page that compares jobs by their reports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flask import Blueprint, Response, abort, flash, redirect, render_template, request, url_for
from markupsafe import Markup
from werkzeug.wrappers import Response as AnyResponse

from di_api.field_error import mapping
from di_api.phase import has_finished
from di_cli.render.comparison import csv_of
from di_cli.views.comparison import (
    MOST,
    Axis,
    Comparison,
    compared,
    last_revision,
    nodes_of_pods,
    nodes_placed,
    seconds_placed,
)
from di_cli.views.jobs import seconds_of
from di_cli.views.reports import Reports
from di_dashboard.history.kept import Told
from di_dashboard.history.seen import uid_of
from di_dashboard.history.series import Series
from di_dashboard.pages.parts import parts, rendered_once
from di_dashboard.pages.stories import path_of
from di_dashboard.views.comparison import (
    MOST_SMOOTH,
    USUAL,
    BadChoice,
    Choice,
    Chosen,
    ComparisonPage,
    axis_of,
    comparison_page,
    metrics_of,
    names_of,
    notes_of,
    reports_of,
)

Object = Mapping[str, Any]

compare_pages: Final = Blueprint("compare_pages", __name__)
TOPIC: Final = "compare"
_FEW: Final = 5
"""Jobs with all the reports that the history has of each in one answer."""
_MOST_POINTS: Final = 7_000
"""Reports of all jobs of a plot: of twenty jobs 350 each, of two all that the history has."""
_PATIENCE: Final = 5.0
"""Seconds for which the page waits for the initial lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The known data of a job.

    Attributes:
        job: in the cluster; None without one.
        told: of the history, without an answer if it has nothing.
        is_seen: whether the reports are those that this process has seen alone.
    """

    name: str
    chosen: Chosen
    job: Object | None
    told: Told
    reports: Reports
    is_seen: bool

    @property
    def is_over(self) -> bool:
        """Return whether the job has ended, and all that is known of it has been read."""
        return (self.job is None or has_finished(self.job)) and not self.is_seen

    @property
    def spec(self) -> Object | None:
        """Return the spec of a job in the cluster."""
        return None if self.job is None else mapping(self.job.get("spec"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A comparison with what the page needs beside it.

    Attributes:
        known: the jobs by their names in the comparison.
        metrics: names of all numbers to choose from.
        is_over: whether nothing of it can change.
    """

    comparison: Comparison
    known: Mapping[str, Chosen]
    metrics: Sequence[str]
    is_over: bool


@compare_pages.get("/compare")
def compare() -> str | AnyResponse:
    """Return the page of a comparison, or the list of jobs if none is chosen."""
    if "job" not in request.args:
        flash(f"Tick 2 to {MOST} jobs, then press Compare.")
        return redirect(url_for("pages.jobs"))
    return _page()


@rendered_once
def _page() -> str:
    choice = _choice()
    found = _compared(choice, most=_points_of_each(choice.jobs))
    page = comparison_page(found.comparison, choice, found.known, found.metrics)
    axis = found.comparison.axis
    return render_template(
        "compare.html",
        page=page,
        choice=choice,
        axis=axis,
        most_smooth=MOST_SMOOTH,
        plot_json=_plot_json(page, choice, axis),
        topic="" if found.is_over else TOPIC,
        section="jobs",
    )


@compare_pages.get("/compare.csv")
def curves_csv() -> Response:
    """Return the curves, a row for each place on the axis and a column for each job."""
    return Response(
        csv_of(_compared(_choice()).comparison),
        mimetype="text/csv",
        headers={"Content-Disposition": 'attachment; filename="compare.csv"'},
    )


def _choice() -> Choice:
    try:
        return Choice.read(request.args.getlist("job"), request.args)
    except BadChoice as error:
        abort(400, str(error))


def _compared(choice: Choice, *, most: int | None = None) -> _Compared:
    """Compare the jobs, by at most so many reports of each; None: by all that there are."""
    here = parts()
    read, notes = _read(choice.jobs, most)
    missing = [each for each in read if each.job is None and not each.told.value]
    notes += [_absence(each) for each in missing]
    read = [each for each in read if each not in missing]
    if not read:
        abort(503 if any(each.told.wrong for each in missing) else 404, " ".join(notes))
    metrics = metrics_of(each.reports for each in read)
    wanted = choice.metric or next(iter(metrics), USUAL)
    specs, of_specs = _specs(read)
    now, found = here.now(), []
    for each, spec in zip(read, specs, strict=True):
        history = each.told.value
        pods = here.cluster_cache.pods_of(each.chosen.namespace, each.chosen.name)
        found.append(
            compared(
                each.name,
                spec,
                each.reports,
                wanted,
                seconds=seconds_placed(history) if each.job is None else seconds_of(each.job, now),
                nodes=nodes_placed(history) if history else nodes_of_pods(pods),
                is_whole=not each.is_seen,
            )
        )
    axis = choice.axis or axis_of(found)
    notes += [note for each in found for note in notes_of(each, axis, wanted)]
    return _Compared(
        comparison=Comparison(
            wanted=wanted,
            jobs=found,
            axis=axis,
            lowest=choice.is_lowest,
            notes=[*notes, *of_specs],
        ),
        known={each.name: each.chosen for each in read},
        metrics=metrics,
        is_over=not missing and not of_specs and all(each.is_over for each in read),
    )


def _absence(read: _Read) -> str:
    """Return that a job is not in the cluster, and whether it was there before."""
    if read.told.wrong:
        return f"{read.chosen.query} is not in the cluster, and its history is not known."
    return f"There is no job {read.chosen.query} (any more)."


def _points_of_each(jobs: Sequence[Chosen]) -> int | None:
    """Return how many reports of each job a plot has; None: all that the history answers with."""
    return _MOST_POINTS // len(jobs) if len(jobs) > _FEW else None


def _read(jobs: Sequence[Chosen], most: int | None) -> tuple[list[_Read], list[str]]:
    """Return what is known of jobs, and what is missing."""
    here = parts()
    present = _present(jobs)
    asked = []
    for each, job in zip(jobs, present, strict=True):
        uid = each.uid if job is None else uid_of(job)
        path, query = path_of(each.namespace, each.name), {"uid": uid} if uid else {}
        of_series = query if most is None else {**query, "limit": str(most)}
        asked += [(each.namespace, path, query), (each.namespace, f"{path}/series", of_series)]
    told = here.kept.all(asked, TOPIC)
    found = []
    for place, (name, each, job) in enumerate(zip(names_of(jobs), jobs, present, strict=True)):
        record, series = told[2 * place : 2 * place + 2]
        seen = Series() if job is None else here.history.series(job)
        found.append(
            _Read(
                name=name,
                chosen=each,
                job=job,
                told=record,
                reports=reports_of(series.value, seen),
                is_seen=not series.value,
            )
        )
    notes = [*dict.fromkeys(each.note for each in told if each.note)]
    seen_alone = [each.name for each in found if each.is_seen and each.job is not None]
    if seen_alone:
        names = " ".join(seen_alone)
        notes.append(f"Not in the history, so curves begin when this page first saw them: {names}.")
    return found, notes


def _present(jobs: Sequence[Chosen]) -> list[Object | None]:
    """Return the jobs that the cluster has."""
    cache = parts().cluster_cache
    if not cache.is_complete:
        # For example a page that was open before the process restarted.
        cache.wait_until_complete(_PATIENCE)
    found = (cache.job(each.namespace, each.name) for each in jobs)
    return [
        job if job is not None and each.uid in ("", uid_of(job)) else None
        for each, job in zip(jobs, found, strict=True)
    ]


def _specs(read: Sequence[_Read]) -> tuple[list[Object], list[str]]:
    """Return the specs, of deleted jobs that of their last manifest, and what is missing."""
    here = parts()
    wanted = {
        each.name: (
            each.chosen.namespace,
            f"{path_of(each.chosen.namespace, each.chosen.name)}/revisions/{number}",
            {"uid": uid}
            if (uid := str(mapping(each.told.value.get("job")).get("uid") or ""))
            else {},
        )
        for each in read
        if each.job is None and (number := last_revision(each.told.value)) is not None
    }
    told = dict(zip(wanted, here.kept.all([*wanted.values()], TOPIC), strict=True))
    specs = [
        each.spec
        if each.spec is not None
        else mapping(told.get(each.name, Told()).value.get("spec"))
        for each in read
    ]
    notes = [
        f"The manifest of {each.name} is not known, so it has no part in what differs."
        for each, spec in zip(read, specs, strict=True)
        if not spec
    ]
    return specs, notes


def _plot_json(page: ComparisonPage, choice: Choice, axis: Axis) -> Markup:
    text = json.dumps(
        {
            "title": page.metric,
            "axis": axis.value,
            "log": choice.is_log,
            "metrics": page.metrics,
            "lines": [each.as_json() for each in page.lines],
        },
        separators=(",", ":"),
    )
    # It is placed in a script element, which no name of a job must close.
    return Markup(text.replace("<", "\\u003c"))
