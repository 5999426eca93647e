"""Common resources of all pages: the cluster cache, the API client, and listeners of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Final, ParamSpec, Protocol

from flask import g, request, session
from werkzeug.wrappers import Response

from di_api.explain import Explanation, Facts, explain
from di_api.field_error import mapping
from di_dashboard.cluster_cache.cache import ClusterCache
from di_dashboard.cluster_cache.feed import Feed, OpenPages
from di_dashboard.cluster_cache.usage import Usage
from di_dashboard.forecast.outlook import Outlooks
from di_dashboard.history.kept import Kept
from di_dashboard.history.seen import History, Object
from di_dashboard.logs.last_lines import LastLines
from di_dashboard.pages.renders import Renders
from di_dashboard.pages.stories import Stories
from di_kube.sync import SyncKubeClient

_HERE: Final = "di_dashboard_parts"
P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The resources of a page.

    Attributes:
        kept: responses of di-history, from which stories are built.
        outlooks: forecasts of waiting jobs.
        client: has the user's permissions.
        log_client: the same; logs keep their connections open while they are read.
        usage: what pods use, as far as it is measured.
        now: by the API server's clock.
        place: name of the cluster.
        namespace: the only one that is shown; None means all.
        read_only: whether nothing can be changed from here.
        form_token: value that each form has to send back.
        open_pages: streams of all users.
        renders: shared renderings of pages.
        user: name of the user; empty for a local dashboard.
        stay: called regularly by streams: whether they can continue.
    """

    cluster_cache: ClusterCache
    feed: Feed
    history: History
    kept: Kept
    stories: Stories
    outlooks: Outlooks
    client: SyncKubeClient
    log_client: SyncKubeClient
    last_lines: LastLines
    usage: Usage
    now: Callable[[], datetime]
    place: str
    namespace: str | None
    read_only: bool
    form_token: str
    open_pages: OpenPages = field(default_factory=OpenPages)
    renders: Renders = field(default_factory=Renders)
    user: str = ""
    stay: Callable[[], bool] = lambda: True

    def explain(self, job: Object) -> Explanation:
        """Return the explanation of the job's state."""
        metadata = mapping(job.get("metadata"))
        namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        pods = self.cluster_cache.pods_of(namespace, name)
        facts = Facts(
            name=name,
            namespace=namespace,
            now=self.now(),
            job=job,
            pods=pods,
            events=self.cluster_cache.events_of(namespace, name),
            nodes=self.cluster_cache.nodes(),
            logs=self.last_lines.of(pods),
            unread=frozenset(self.cluster_cache.unread),
        )
        return explain(facts)


class SignIn(Protocol):
    """Authenticates the user of each request, and returns what the user can see."""

    def enter(self) -> Parts | Response | None:
        """Return the resources of the page, or a response in its place; None: this page needs no
        resources.

        Raises:
            HTTPException: the caller has no permission.
        """


def put(found: Parts) -> None:
    """Set the resources of this request's page."""
    setattr(g, _HERE, found)


def parts() -> Parts:
    """Return the resources of this request's page."""
    found: Parts = getattr(g, _HERE)
    return found


def rendered_once(view: Callable[P, str]) -> Callable[P, str]:
    """Decorate a view whose page depends only on its address and the cluster."""

    @wraps(view)
    def shown(*args: P.args, **kwargs: P.kwargs) -> str:
        if session:
            # The page has a message for this user only.
            return view(*args, **kwargs)
        return parts().renders.get(request.full_path, lambda: view(*args, **kwargs))

    return shown


def parts_or_none() -> Parts | None:
    """Return the resources, or None without a signed-in user."""
    found: Parts | None = g.get(_HERE)
    return found
