"""Reads the input of an explanation of a job, with the user's permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from di_api.explain import Facts
from di_api.explain.claims import claims_of
from di_api.explain.facts import is_healthy
from di_api.explain.limit_ranges import breaks_limits
from di_api.field_error import items, mapping
from di_cli.logs.read import last_lines
from di_cli.session import Session
from di_cli.views.pods import in_order, name_of
from di_kube.errors import ApiError, NotFound
from di_kube.resources import LIMIT_RANGES

_LOGS = 3
"""Maximum number of pods whose logs are read."""
_LINES = 100
"""Lines of a log among which the error is: a launcher writes dozens of lines after it."""

Object = dict[str, Any]


def gather(session: Session, name: str) -> Facts:
    """Read the input of an explanation; objects that the user cannot read are left out."""
    try:
        job = session.job(name)
    except NotFound:
        names = [str(each["metadata"]["name"]) for each in session.jobs()]
        return Facts(
            name=name, namespace=session.namespace, now=session.now(), job=None, jobs=names
        )
    unread: set[str] = set()
    pods = _readable("pods", lambda: session.pods(name), unread)
    events = _readable("events", lambda: session.events(name, claims_of(pods)), unread)
    return Facts(
        name=name,
        namespace=session.namespace,
        now=session.now(),
        job=job,
        pods=pods,
        events=events,
        nodes=session.nodes(),
        limit_ranges=_limit_ranges(session, job, events),
        logs=_logs(session, pods),
        unread=frozenset(unread),
    )


def _limit_ranges(session: Session, job: Object, events: list[Object]) -> list[Object]:
    """Return the namespace's LimitRanges if a message is about one and the user can read them."""
    conditions = items(mapping(job.get("status")).get("conditions"))
    texts = (str(mapping(each).get("message")) for each in (*conditions, *events))
    if not breaks_limits(texts):
        return []
    return _readable(
        "limitranges", lambda: session.client.list(LIMIT_RANGES, session.namespace)[0], set()
    )


def _readable(kind: str, read: Callable[[], list[Object]], unread: set[str]) -> list[Object]:
    """Return what can be read; otherwise note that it cannot."""
    try:
        return read()
    except ApiError:
        unread.add(kind)
        return []


def _logs(session: Session, pods: list[dict[str, Any]]) -> dict[str, list[str]]:
    unwell = [pod for pod in in_order(pods) if not is_healthy(pod)][:_LOGS]
    found = {name_of(pod): last_lines(session, dict(pod), _LINES) for pod in unwell}
    return {pod: lines for pod, lines in found.items() if lines}
