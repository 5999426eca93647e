"""Pages from the history only: deleted jobs, their logs, and earlier manifests."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from flask import Blueprint, Response, abort, render_template, request

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_cli.views.times import age, local
from di_dashboard.history.kept import Told
from di_dashboard.logs.tail import MOST_PODS
from di_dashboard.pages.logs import LINES, Panel
from di_dashboard.pages.parts import parts
from di_dashboard.pages.stories import path_of
from di_dashboard.views.jobs import mood_of
from di_dashboard.views.revisions import as_yaml, changes

kept_pages: Final = Blueprint("kept_pages", __name__)
_JOBS: Final = "50"
_LONGEST: Final = 200
_MOST_NAMESPACES: Final = 30


@kept_pages.get("/ended")
def ended() -> str:
    """Return the page of jobs that have ended or were deleted, in one namespace, which the token is
    for.
    """
    here = parts()
    known = sorted({entry.namespace for entry in here.cluster_cache.entries()})
    if here.namespace and here.namespace not in known:
        known.append(here.namespace)
    asked = request.args.get("namespace", "")[:_LONGEST] or here.namespace
    namespace = asked or (known[0] if known else "default")
    query = {"namespace": namespace, "over": "true", "limit": _JOBS}
    if page := request.args.get("page", "")[:_LONGEST]:
        query["page"] = page
    told = here.kept.get(namespace, "/jobs", **query)
    now = here.now()
    rows = [
        {
            "name": str(each.get("name") or ""),
            "uid": str(each.get("uid") or ""),
            "owner": str(each.get("owner") or ""),
            "phase": str(each.get("phase") or "Pending"),
            "mood": mood_of(str(each.get("phase") or "")),
            "created": local(parse_time(each.get("created"))),
            "ended": age(each.get("completed") or each.get("deleted"), now),
            "is_gone": bool(each.get("deleted")),
        }
        for each in map(mapping, items(told.value.get("jobs")))
    ]
    return render_template(
        "ended.html",
        topic="ended",
        rows=rows,
        told=told,
        namespace=namespace,
        namespaces=known[:_MOST_NAMESPACES],
        next=str(told.value.get("next") or ""),
    )


@kept_pages.get("/jobs/<namespace>/<name>/revisions/<int:number>")
def revision(namespace: str, name: str, number: int) -> Response:
    """Return a job's manifest at a revision, and the difference to the previous one."""
    uid = request.args.get("uid", "")[:_LONGEST]
    told = _manifest(namespace, name, uid, number)
    if not told.value:
        abort(404, told.note or _missing(f"revision {number} of {namespace}/{name}"))
    if request.args.get("raw") is not None:
        return Response(as_yaml(told.value), mimetype="text/plain")
    story, _ = parts().stories.of(namespace, name, uid)
    earlier = [each.number for each in story.revisions if each.number < number]
    before = _manifest(namespace, name, uid, max(earlier)).value if earlier else {}
    page = render_template(
        "revision.html",
        namespace=namespace,
        name=name,
        uid=uid,
        number=number,
        who=next((each for each in story.revisions if each.number == number), None),
        text=as_yaml(told.value),
        before=max(earlier) if earlier and before else None,
        changes=changes(before, told.value) if before else [],
    )
    return Response(page)


@kept_pages.get("/jobs/<namespace>/<name>/ended-logs")
def logs(namespace: str, name: str) -> str | Response:
    """Return the page with log tails of deleted pods, side by side, with a search."""
    uid = request.args.get("uid", "")[:_LONGEST]
    query = request.args.get("q", "")[:_LONGEST]
    story, wrong = parts().stories.of(namespace, name, uid)
    if story.is_empty:
        abort(404, wrong or _missing(f"job {namespace}/{name}"))
    names = [*dict.fromkeys(pod for pod, _ in story.logs)]
    asked = request.args.getlist("pod")
    chosen = ([each for each in names if each in asked] or names[:1])[:MOST_PODS]
    path, chosen_uid = path_of(namespace, name), {"uid": uid} if uid else {}
    if request.args.get("raw") is not None and len(chosen) == 1:
        told = parts().kept.get(namespace, f"{path}/logs/{quote(chosen[0])}", **chosen_uid)
        return Response(told.text or told.wrong, mimetype="text/plain")
    for pod in chosen:
        parts().kept.begin(namespace, f"{path}/logs/{quote(pod)}", **chosen_uid)
    tasks = {each.pod: each.task for each in story.places}
    panels = []
    for pod in chosen:
        told = parts().kept.get(namespace, f"{path}/logs/{quote(pod)}", **chosen_uid)
        panels.append(_panel(pod, tasks.get(pod, ""), told, query))
    return render_template(
        "ended_logs.html",
        namespace=namespace,
        name=name,
        uid=uid,
        names=names,
        chosen=chosen,
        panels=panels,
        lost=story.lost,
        query=query,
        most=MOST_PODS,
        lines=LINES,
    )


def _panel(pod: str, task: str, told: Told, query: str) -> Panel:
    split = (line.partition(" ") for line in told.text.splitlines())
    lines = [(at, text) for at, _, text in split]
    if query:
        lines = [each for each in lines if query.lower() in each[1].lower()]
    wrong = told.wrong or ("" if told.text else "nothing is kept")
    return Panel(pod=pod, title=task, lines=lines[-LINES:], last="", wrong=wrong)


def _manifest(namespace: str, name: str, uid: str, number: int) -> Told:
    query: dict[str, Any] = {"uid": uid} if uid else {}
    path = f"{path_of(namespace, name)}/revisions/{number}"
    return parts().kept.get(namespace, path, **query)


def _missing(what: str) -> str:
    return f"Nothing is kept of {what}."
