"""The session of a user: the watch with the user's permissions, its cache, and the requests of
pages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import LABEL_JOB
from di_cli.access.kubeconfig import Access
from di_cli.logs.read import last_lines
from di_cli.session import Session
from di_dashboard.cluster_cache.cache import CLUSTER_TOPIC, JOBS_TOPIC, ClusterCache
from di_dashboard.cluster_cache.feed import Feed, OpenPages
from di_dashboard.cluster_cache.usage import Usage
from di_dashboard.cluster_cache.watcher import Watcher
from di_dashboard.forecast.allocator import outlook
from di_dashboard.forecast.outlook import Outlooks
from di_dashboard.history.client import HistoryClient
from di_dashboard.history.kept import PATIENCE, Ask, Kept
from di_dashboard.history.seen import Seen
from di_dashboard.logs.last_lines import LastLines
from di_dashboard.pages.parts import Parts
from di_dashboard.pages.stories import Stories
from di_kube.errors import ApiError
from di_kube.resources import GPU_METRICS, POD_METRICS, Resource
from di_kube.server_time import ServerTime
from di_kube.sync import SyncKubeClient

_TIMEOUT: Final = 15.0
_METRICS_SECONDS: Final = 2.0
"""Seconds for which a page waits for the use of pods. An API server waits longer for a metrics
server that does not respond.
"""
_CONNECTIONS: Final = 8
_LOG_CONNECTIONS: Final = 64
_WORDS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPlace:
    """Address of di-history, and whose token is sent.

    Attributes:
        server: base URL; None: $DI_HISTORY_URL, or kubectl's port-forward.
        account: service account of the token; None: it is the user's own, as in `token_for`.
        authority: its CA certificates, PEM; empty means the system's.
        tls_server_name: expected name in its certificate; empty means the URL's host.
        context: of the kubeconfig, for kubectl.
        patience: seconds that a page waits for a response; without one it says that there is none
            yet.
    """

    server: str | None = None
    account: str | None = None
    authority: str = ""
    tls_server_name: str = ""
    context: str | None = None
    patience: float = PATIENCE


def client_of(access: Access, clock: ServerTime, connections: int = _CONNECTIONS) -> SyncKubeClient:
    """Return a client with the user's permissions; the caller closes it."""
    return SyncKubeClient(
        config=access.config,
        timeout=_TIMEOUT,
        connections=connections,
        on_date=clock.observe,
    )


@contextmanager
def looking(
    access: Access,
    client: SyncKubeClient,
    clock: ServerTime,
    *,
    scope: str | None,
    form_token: str,
    read_only: bool,
    history: HistoryPlace | None,
    user: str = "",
    stay: Callable[[], bool] = lambda: True,
    open_pages: OpenPages | None = None,
) -> Iterator[Parts]:
    """Watch until the end of the block; yields the resources of pages.

    Args:
        client: of `access`.
        scope: the only namespace that is shown; None means all.
        history: access to di-history; None: not configured.
        user, stay: of `Parts`.
        open_pages: of `Parts`; None: they are counted only here.
    """
    with (
        client_of(access, clock, _LOG_CONNECTIONS) as log_client,
        _asking(access, client, history) as ask,
    ):
        feed, seen = Feed(), Seen()
        cluster_cache = ClusterCache(feed=feed, seen=seen, now=clock.now)
        kept = Kept(
            ask,
            tell=lambda topic: feed.publish([topic]),
            clock=time.monotonic,
            patience=PATIENCE if history is None else history.patience,
        )
        found = Parts(
            cluster_cache=cluster_cache,
            feed=feed,
            history=seen,
            kept=kept,
            stories=Stories(kept),
            outlooks=Outlooks(
                lambda: outlook(
                    cluster_cache, Session(client, access, scope or access.namespace, clock)
                ),
                tell=lambda: feed.publish([JOBS_TOPIC, CLUSTER_TOPIC]),
                clock=time.monotonic,
            ),
            client=client,
            log_client=log_client,
            last_lines=LastLines(_reader(client, access, clock)),
            usage=Usage(
                partial(read_metrics, client, POD_METRICS),
                partial(read_metrics, client, GPU_METRICS),
                clock=time.monotonic,
            ),
            now=clock.now,
            place=access.context or access.config.server,
            namespace=scope,
            read_only=read_only,
            form_token=form_token,
            user=user,
            stay=stay,
            open_pages=open_pages or OpenPages(),
        )
        watcher = Watcher(
            config=access.config,
            namespace=scope,
            cluster_cache=cluster_cache,
            on_date=clock.observe,
            clock=time.monotonic,
            rng=Random(),
        )
        watcher.start()
        try:
            yield found
        finally:
            watcher.stop()


@contextmanager
def _asking(
    access: Access, client: SyncKubeClient, place: HistoryPlace | None
) -> Iterator[Ask | None]:
    if place is None:
        yield None
        return
    asking = HistoryClient(
        access.config,
        client,
        server=place.server,
        account=place.account,
        authority=place.authority,
        tls_server_name=place.tls_server_name,
        context=place.context,
    )
    try:
        yield asking
    finally:
        asking.close()


def read_metrics(
    client: SyncKubeClient, metrics: Resource, namespace: str, job: str
) -> Sequence[Mapping[str, Any]]:
    """Return the metrics of a job's pods.

    Raises:
        ApiError: they are not served, not readable, or late.
    """
    selector = f"{LABEL_JOB}={job}"
    return client.list(metrics, namespace, label_selector=selector, timeout=_METRICS_SECONDS)[0]


def _reader(
    client: SyncKubeClient, access: Access, clock: ServerTime
) -> Callable[[Mapping[str, Any]], list[str]]:
    def read(pod: Mapping[str, Any]) -> list[str]:
        namespace = str(mapping(pod.get("metadata")).get("namespace") or "")
        try:
            return last_lines(Session(client, access, namespace, clock), pod, _WORDS)
        except ApiError:
            return []

    return read
