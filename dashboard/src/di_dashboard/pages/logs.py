"""Pages of logs: several ranks side by side, searchable and live."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flask import Blueprint, Response, render_template, request

from di_cli.logs.read import Asked, container_of, lines_of
from di_cli.logs.sources import containers_of
from di_cli.views.pods import in_order, name_of, rank_of, task_of
from di_dashboard.history.seen import Object
from di_dashboard.logs.tail import MOST_PODS, Tail, Wanted
from di_dashboard.pages.jobs import job_or_404
from di_dashboard.pages.parts import Parts, parts
from di_dashboard.pages.stream import streamed
from di_kube.errors import ApiError

log_pages: Final = Blueprint("log_pages", __name__)
LINES: Final = 300
"""Number of last lines of each pod that a page begins with."""
_BEAT: Final = 10.0
"""Seconds without a line after which the browser gets a comment."""
_PAUSE: Final = 0.1
"""Seconds between two events; lines in between are sent together."""
_SEARCHED: Final = 5000
"""Number of last lines that a page without JavaScript searches."""
_LONGEST_QUERY: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The log of a pod.

    Attributes:
        last: the time of the last line; later lines are newer.
        wrong: why there is none.
        left_out: that the log may have earlier lines, and how many are shown or searched.
    """

    pod: str
    title: str
    lines: Sequence[tuple[str, str]]
    last: str
    wrong: str
    left_out: str = ""


@log_pages.get("/jobs/<namespace>/<name>/logs")
def logs(namespace: str, name: str) -> str:
    """Return the page with the last lines of some pods; with JavaScript it follows them
    from there.
    """
    job_or_404(namespace, name)
    pods = in_order(parts().cluster_cache.pods_of(namespace, name))
    chosen = _chosen(pods)
    query = request.args.get("q", "")[:_LONGEST_QUERY]
    previous = "previous" in request.args
    containers = list(dict.fromkeys(each for pod in pods for each in containers_of(pod)))
    container = _container(containers)
    return render_template(
        "logs.html",
        namespace=namespace,
        name=name,
        pods=[(name_of(pod), task_of(pod), rank_of(pod)) for pod in pods],
        chosen=[name_of(pod) for pod in chosen],
        containers=containers,
        container=container,
        panels=[_panel(namespace, pod, container, query, previous=previous) for pod in chosen],
        query=query,
        previous=previous,
        most=MOST_PODS,
    )


@log_pages.get("/jobs/<namespace>/<name>/logs/stream")
def stream(namespace: str, name: str) -> Response:
    """Stream the new lines of the requested pods, each after the given time."""
    job_or_404(namespace, name)
    known = {name_of(pod): pod for pod in parts().cluster_cache.pods_of(namespace, name)}
    asked = zip(request.args.getlist("pod"), request.args.getlist("since"), strict=False)
    container = request.args.get("container", "")
    wanted = [
        Wanted(pod=pod, container=container or container_of(known[pod]), since=since)
        for pod, since in asked
        if pod in known and (not container or container in containers_of(known[pod]))
    ][:MOST_PODS]

    def begin(here: Parts) -> Lines:
        return Lines(here, Tail(here.log_client, namespace, wanted, lines=LINES), wanted)

    return streamed(begin, first=b": begun\n\n")


class Lines:
    """A stream of events with lines of a tail, several in each."""

    beat_seconds = _BEAT
    rest_seconds = _PAUSE

    def __init__(self, here: Parts, tail: Tail, wanted: Sequence[Wanted]) -> None:
        self._here = here
        self._tail = tail
        self._wanted = wanted
        self.on_news = tail.on_news
        self.close = tail.leave
        tail.begin()

    def more(self, *, is_news: bool) -> bytes | None:
        """See `Stream`."""
        del is_news
        if not self._here.stay():
            return None
        lines = [[self._wanted[each.place].pod, each.time, each.text] for each in self._tail.take()]
        return f"data: {json.dumps(lines)}\n\n".encode() if lines else b": none\n\n"


def _chosen(pods: Sequence[Object]) -> list[Object]:
    """Return the requested pods, else the first ones."""
    asked = request.args.getlist("pod")
    found = [pod for pod in pods if name_of(pod) in asked]
    return (found or list(pods[:1]))[:MOST_PODS]


def _container(known: Sequence[str]) -> str:
    """Return the requested container; empty: each pod's program."""
    asked = request.args.get("container", "")
    return asked if asked in known else ""


def _panel(namespace: str, pod: Object, container: str, query: str, *, previous: bool) -> Panel:
    asked = Asked(
        container=container or container_of(pod),
        tail=_SEARCHED if query else LINES,
        previous=previous,
    )
    lines: list[tuple[str, str]] = []
    wrong = ""
    if container and container not in containers_of(pod):
        wrong = f"this pod has no container {container}"
    else:
        try:
            lines = [*lines_of(parts().client, namespace, name_of(pod), asked)]
        except ApiError as error:
            wrong = error.message or error.reason
    last = lines[-1][0] if lines else ""
    left_out = ""
    if len(lines) == asked.tail:
        left_out = f"The last {asked.tail} lines{' were searched' if query else ''}"
    if query:
        lines = [each for each in lines if query.lower() in each[1].lower()][-LINES:]
    rank = rank_of(pod)
    where = "" if rank is None else f" · rank {rank}"
    return Panel(
        pod=name_of(pod),
        title=f"{task_of(pod)}{where}",
        lines=lines,
        last=last,
        left_out=left_out,
        wrong=wrong,
    )
