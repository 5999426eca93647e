"""What all pages have: the cluster in memory, the API server, and who is told of changes."""

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
    """All of it.

    Attributes:
        kept: what di-history remembers of jobs, and stories are made of.
        outlooks: when jobs that wait are expected to start.
        client: as the user who looks.
        log_client: likewise; logs hold their connections for as long as somebody reads.
        now: by the API server's clock.
        place: which cluster, in words.
        namespace: the only one that is looked at; None means all.
        read_only: whether nothing may be changed from here.
        form_token: what each form has to send back.
        open_pages: streams of all users.
        renders: of pages that several look at.
        user: who looks, in words; empty on a machine of one's own.
        stay: asked now and then by what outlives its request: whether it may go on.
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
        """Why the job is as it is."""
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
        )
        return explain(facts)


class SignIn(Protocol):
    """Decides of each request who looks, and so what there is to see."""

    def enter(self) -> Parts | Response | None:
        """What the page has, or an answer in its place; None: nothing is needed for this one.

        Raises:
            HTTPException: who asks may not look.
        """


def put(found: Parts) -> None:
    """The page of this request has these."""
    setattr(g, _HERE, found)


def parts() -> Parts:
    """Those of the page that answers."""
    found: Parts = getattr(g, _HERE)
    return found


def rendered_once(view: Callable[P, str]) -> Callable[P, str]:
    """For a view whose page depends on nothing but its address and what the cluster is like."""

    @wraps(view)
    def shown(*args: P.args, **kwargs: P.kwargs) -> str:
        if session:
            # Something is said to this one alone.
            return view(*args, **kwargs)
        return parts().renders.get(request.full_path, lambda: view(*args, **kwargs))

    return shown


def parts_or_none() -> Parts | None:
    """Likewise, if somebody looks who may."""
    found: Parts | None = g.get(_HERE)
    return found
