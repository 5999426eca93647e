"""The page on a user's own machine, with the user's own rights: what `di dashboard` runs."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from typing_extensions import override
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from di_api.field_error import mapping
from di_api.kube.errors import ApiError, Forbidden
from di_api.kube.resources import DIJOBS
from di_api.kube.server_time import ServerTime
from di_api.kube.sync import SyncKubeClient
from di_cli.access.kubeconfig import Access
from di_cli.logs.read import last_lines
from di_cli.session import Session
from di_dashboard.app import create_app
from di_dashboard.asking import Asking
from di_dashboard.feed import Feed
from di_dashboard.forecast import outlook
from di_dashboard.gate import PARAMETER, Gate
from di_dashboard.history import Seen
from di_dashboard.kept import Ask, Kept
from di_dashboard.last_words import LastWords
from di_dashboard.outlook import Outlooks
from di_dashboard.parts import Parts
from di_dashboard.stories import Stories
from di_dashboard.watching import Watcher
from di_dashboard.world import CLUSTER_TOPIC, JOBS_TOPIC, World

HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
_TIMEOUT: Final = 15.0
_LOG_CONNECTIONS: Final = 64
_FIRST_SECONDS: Final = 3.0
_WORDS: Final = 20
_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A page that is served.

    Attributes:
        url: with the token in it.
        world: what it shows.
    """

    url: str
    world: World


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPlace:
    """Where di-history is, and as whom it is asked.

    Attributes:
        server: base URL; None: $DI_HISTORY_URL, or kubectl's port-forward.
        account: the service account of each namespace whose token is shown.
        authority: PEM to know it by; empty means the system's.
        tls_server_name: name expected in its certificate; empty means the URL's host.
        context: of the kubeconfig, for kubectl.
    """

    server: str | None = None
    account: str = "default"
    authority: str = ""
    tls_server_name: str = ""
    context: str | None = None


class _Handler(WSGIRequestHandler):
    # Streams are sent in chunks, and connections kept.
    protocol_version = "HTTP/1.1"

    @override
    def log(self, type: str, message: str, *args: object) -> None:  # as it is there
        """Nothing: who looks needs no log of looking, and it would have the token in it."""


class _Server(ThreadedWSGIServer):
    # Streams last as long as their pages; the process does not wait for them.
    daemon_threads = True
    block_on_close = False

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was left in the middle of an answer is no error."""
        logging.getLogger(__name__).debug("a request ended early", exc_info=True)


@contextmanager
def serving(
    access: Access,
    *,
    namespace: str | None,
    port: int = 0,
    read_only: bool = False,
    history: HistoryPlace | None = None,
) -> Iterator[Serving]:
    """Serve the page on this machine until the end of the block.

    Args:
        access: to the API server, as the user.
        namespace: to look at; None means all, or that of the context for who may not list all.
        port: 0 takes one that is free.
        history: where di-history is; None: nobody is asked.

    Raises:
        ApiError: the API server does not answer, or knows neither the user nor any DIJobs.
        OSError: the port is taken.
    """
    clock = ServerTime(wall=lambda: datetime.now(UTC), monotonic=time.monotonic)
    with (
        _client(access, clock, 8) as client,
        _client(access, clock, _LOG_CONNECTIONS) as log_client,
        _asking(client, history) as ask,
    ):
        scope = namespace or _scope(client, access)
        feed, seen = Feed(), Seen()
        world = World(feed=feed, seen=seen, now=clock.now)
        kept = Kept(ask, tell=lambda topic: feed.publish([topic]), clock=time.monotonic)
        server = _server(port)
        token = secrets.token_urlsafe(32)
        found = Parts(
            world=world,
            feed=feed,
            history=seen,
            kept=kept,
            stories=Stories(kept),
            outlooks=Outlooks(
                lambda: outlook(world, Session(client, access, scope or access.namespace, clock)),
                tell=lambda: feed.publish([JOBS_TOPIC, CLUSTER_TOPIC]),
                clock=time.monotonic,
            ),
            client=client,
            log_client=log_client,
            last_words=LastWords(_reader(client, access, clock)),
            gate=Gate(
                token=token,
                hosts=[f"{name}:{server.port}" for name in _NAMES],
                cookie=f"di-dashboard-{server.port}",
            ),
            now=clock.now,
            place=access.context or access.config.server,
            namespace=scope,
            read_only=read_only,
        )
        server.app = create_app(found)
        watcher = Watcher(
            config=access.config,
            namespace=scope,
            world=world,
            on_date=clock.observe,
            clock=time.monotonic,
            rng=Random(),
        )
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        watcher.start()
        thread.start()
        try:
            yield Serving(url=f"http://{HOST}:{server.port}/?{PARAMETER}={token}", world=world)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            watcher.stop()


def run(
    access: Access,
    *,
    namespace: str | None,
    port: int,
    read_only: bool,
    browser: bool,
    say: Callable[[str], None],
    history: HistoryPlace | None = None,
) -> None:
    """Serve the page until Ctrl-C, and open it in the browser. Raises as `serving`."""
    with (
        _quiet(logging.getLogger("di_api.kube.cache")),
        serving(
            access, namespace=namespace, port=port, read_only=read_only, history=history
        ) as served,
    ):
        served.world.wait_until_complete(_FIRST_SECONDS)
        say(f"the page is at {served.url}")
        if browser:
            webbrowser.open(served.url)
        say("Ctrl-C ends it")
        until_interrupted()


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Its log is for who develops it; what a user has to know is on the page."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def until_interrupted() -> None:
    """Wait for Ctrl-C, which comes as KeyboardInterrupt."""
    # In slices: a signal that comes right before a wait without end begins would not end it.
    while not threading.Event().wait(1.0):
        pass


def _server(port: int) -> _Server:
    """One that listens already: werkzeug would end the process if the port is taken."""
    with socket.create_server((HOST, port), backlog=_BACKLOG) as bound:
        return _Server(HOST, port, _not_yet, _Handler, fd=bound.fileno())


@contextmanager
def _asking(client: SyncKubeClient, place: HistoryPlace | None) -> Iterator[Ask | None]:
    if place is None:
        yield None
        return
    asking = Asking(
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


def _client(access: Access, clock: ServerTime, connections: int) -> SyncKubeClient:
    return SyncKubeClient(
        config=access.config,
        timeout=_TIMEOUT,
        connections=connections,
        on_date=clock.observe,
    )


def _scope(client: SyncKubeClient, access: Access) -> str | None:
    """None: who looks may list the jobs of all namespaces."""
    try:
        client.list(DIJOBS, None, field_selector="metadata.name=none")
    except Forbidden:
        return access.namespace
    return None


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


def _not_yet(environ: object, start: object) -> list[bytes]:
    raise RuntimeError("the application is put in before the server runs")
