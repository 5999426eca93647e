"""Logs: several ranks side by side, searched, and followed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flask import Blueprint, Response, abort, render_template, request, stream_with_context

from di_api.kube.errors import ApiError
from di_cli.logs.read import Asked, container_of, lines_of
from di_cli.views.pods import in_order, name_of, rank_of, task_of
from di_dashboard.feed import TooMany
from di_dashboard.history import Object
from di_dashboard.pages import job_or_404
from di_dashboard.parts import parts
from di_dashboard.tail import MOST_PODS, Tail, Wanted

log_pages: Final = Blueprint("log_pages", __name__)
LINES: Final = 300
"""Last lines of each pod that a page begins with."""
_SEARCHED: Final = 5000
"""Last lines that are searched by a page without JavaScript."""
_LONGEST_QUERY: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The log of a pod.

    Attributes:
        last: the time of the last line; what follows is newer.
        wrong: why there is none.
    """

    pod: str
    title: str
    lines: Sequence[tuple[str, str]]
    last: str
    wrong: str


@log_pages.get("/jobs/<namespace>/<name>/logs")
def logs(namespace: str, name: str) -> str:
    """The last lines of some pods; a page with JavaScript follows them from there."""
    job_or_404(namespace, name)
    pods = in_order(parts().world.pods_of(namespace, name))
    chosen = _chosen(pods)
    query = request.args.get("q", "")[:_LONGEST_QUERY]
    previous = "previous" in request.args
    return render_template(
        "logs.html",
        namespace=namespace,
        name=name,
        pods=[(name_of(pod), task_of(pod), rank_of(pod)) for pod in pods],
        chosen=[name_of(pod) for pod in chosen],
        panels=[_panel(namespace, pod, query, previous=previous) for pod in chosen],
        query=query,
        previous=previous,
        most=MOST_PODS,
    )


@log_pages.get("/jobs/<namespace>/<name>/logs/stream")
def stream(namespace: str, name: str) -> Response:
    """Lines as they come, of the pods that are asked for, each after the time beside it."""
    job_or_404(namespace, name)
    here = parts()
    known = {name_of(pod): pod for pod in here.world.pods_of(namespace, name)}
    asked = zip(request.args.getlist("pod"), request.args.getlist("since"), strict=False)
    wanted = [
        Wanted(pod=pod, container=container_of(known[pod]), since=since)
        for pod, since in asked
        if pod in known
    ][:MOST_PODS]

    try:
        # It counts as an open page: each takes a thread.
        listener = here.feed.join(["logs"])
    except TooMany as error:
        abort(503, str(error))

    def events() -> Iterator[str]:
        with Tail(here.log_client, namespace, wanted, lines=LINES) as tail:
            yield ": begun\n\n"
            for batch in tail.batches():
                if not here.stay():
                    return
                lines = [[wanted[each.place].pod, each.time, each.text] for each in batch]
                yield f"data: {json.dumps(lines)}\n\n" if lines else ": none\n\n"

    answer = Response(stream_with_context(events()), mimetype="text/event-stream")
    answer.call_on_close(lambda: here.feed.leave(listener))
    return answer


def _chosen(pods: Sequence[Object]) -> list[Object]:
    """Those that are asked for, else the first."""
    asked = request.args.getlist("pod")
    found = [pod for pod in pods if name_of(pod) in asked]
    return (found or list(pods[:1]))[:MOST_PODS]


def _panel(namespace: str, pod: Object, query: str, *, previous: bool) -> Panel:
    asked = Asked(
        container=container_of(pod), tail=_SEARCHED if query else LINES, previous=previous
    )
    lines: list[tuple[str, str]] = []
    wrong = ""
    try:
        lines = [*lines_of(parts().client, namespace, name_of(pod), asked)]
    except ApiError as error:
        wrong = error.message or error.reason
    last = lines[-1][0] if lines else ""
    if query:
        lines = [each for each in lines if query.lower() in each[1].lower()][-LINES:]
    rank = rank_of(pod)
    where = "" if rank is None else f" · rank {rank}"
    return Panel(
        pod=name_of(pod), title=f"{task_of(pod)}{where}", lines=lines, last=last, wrong=wrong
    )
