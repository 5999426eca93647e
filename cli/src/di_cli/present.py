"""The present objects of the cluster, as far as the user can read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from di_cli.session import Session
from di_kube.errors import Forbidden
from di_kube.resources import DIJOBS, NODES, PODS, Resource

Object = dict[str, Any]
_LIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Selector of pods that have not ended, because ended pods use no capacity."""


@dataclass(slots=True, kw_only=True)
class Present:
    """Objects from the API server.

    Attributes:
        pods: those that have not ended.
        unread: what the user cannot read, as text.
    """

    nodes: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def read_present(session: Session) -> Present:
    """Read nodes, and jobs and pods of all namespaces, or else of the user's own."""
    found = read_nodes_and_pods(session)
    found.jobs = _of_all(session, DIJOBS, found.unread)
    return found


def read_nodes_and_pods(session: Session) -> Present:
    """Read nodes and pods, without jobs."""
    found = Present()
    try:
        found.nodes = session.client.list(NODES)[0]
    except Forbidden:
        found.unread.append("nodes")
    found.pods = _of_all(session, PODS, found.unread, _LIVE)
    return found


def _of_all(
    session: Session, resource: Resource, unread: list[str], selector: str | None = None
) -> list[Object]:
    try:
        return session.client.list(resource, field_selector=selector)[0]
    except Forbidden:
        unread.append(f"{resource.plural} of other namespaces")
    return session.client.list(resource, session.namespace, field_selector=selector)[0]
