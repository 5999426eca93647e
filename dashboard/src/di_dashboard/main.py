"""The page on a user's own machine, with the user's own rights: what `di dashboard` runs."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler
from werkzeug.wrappers import Response
from werkzeug.wsgi import ClosingIterator

from di_cli.access.kubeconfig import Access
from di_dashboard.app import create_app
from di_dashboard.cluster_cache.cache import ClusterCache
from di_dashboard.pages.parts import Parts, put
from di_dashboard.session import HistoryPlace, client_of, looking
from di_dashboard.token_check import PARAMETER, TokenCheck
from di_kube.errors import Forbidden
from di_kube.resources import DIJOBS
from di_kube.server_time import ServerTime
from di_kube.sync import SyncKubeClient
from di_service.serving.streams import STREAM, in_a_thread

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
_FIRST_SECONDS: Final = 3.0
_BACKLOG: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A page that is served.

    Attributes:
        url: with the token in it.
        cluster_cache: what it shows.
    """

    url: str
    cluster_cache: ClusterCache


class OneUser:
    """The sign-in of a page that has one user: whoever has its token.

    Args:
        found: what there is to see.
    """

    def __init__(self, token_check: TokenCheck, found: Parts) -> None:
        self._gate = token_check
        self._found = found

    def enter(self) -> Parts | Response:
        """See `SignIn`; who may not look is told on a page of what there is."""
        put(self._found)
        return self._gate.check() or self._found


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
    path: str = "/",
    read_only: bool = False,
    history: HistoryPlace | None = None,
) -> Iterator[Serving]:
    """Serve the page on this machine until the end of the block.

    Args:
        access: to the API server, as the user.
        namespace: to look at; None means all, or that of the context for who may not list all.
        port: 0 takes one that is free.
        path: that all addresses of the page are below.
        history: where di-history is; None: nobody is asked.

    Raises:
        ApiError: the API server does not answer, or knows neither the user nor any DIJobs.
        OSError: the port is taken.
    """
    clock = ServerTime(wall=lambda: datetime.now(UTC), monotonic=time.monotonic)
    with client_of(access, clock) as client:
        scope = namespace or _scope(client, access)
        server = _server(port)
        token = secrets.token_urlsafe(32)
        token_check = TokenCheck(
            token=token,
            hosts=[f"{name}:{server.port}" for name in _NAMES],
            cookie=f"di-dashboard-{server.port}",
        )
        with looking(
            access,
            client,
            clock,
            scope=scope,
            form_token=token_check.form_token,
            read_only=read_only,
            history=history,
        ) as found:
            server.app = partial(
                _with_streams, create_app(OneUser(token_check, found), path).wsgi_app
            )
            thread = threading.Thread(
                target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
            )
            thread.start()
            try:
                at = f"http://{HOST}:{server.port}{path.rstrip('/')}/"
                url = f"{at}?{PARAMETER}={token}"
                yield Serving(url=url, cluster_cache=found.cluster_cache)
            finally:
                server.shutdown()
                thread.join()
                server.server_close()


def run(
    access: Access,
    *,
    namespace: str | None,
    port: int,
    path: str,
    read_only: bool,
    browser: bool,
    say: Callable[[str], None],
    history: HistoryPlace | None = None,
) -> None:
    """Serve the page until Ctrl-C, and open it in the browser. Raises as `serving`."""
    with (
        _quiet(logging.getLogger("di_kube.cache")),
        serving(
            access,
            namespace=namespace,
            port=port,
            path=path,
            read_only=read_only,
            history=history,
        ) as served,
    ):
        served.cluster_cache.wait_until_complete(_FIRST_SECONDS)
        say(f"the page is at {served.url}")
        with way_in(served.url) as page:
            if browser:
                webbrowser.open(page)
            say("Ctrl-C ends it")
            until_interrupted()


@contextmanager
def way_in(url: str) -> Iterator[str]:
    """Make a file that leads a browser to the URL, until the end of the block; returns its own URL.

    Every user of the machine can read a browser's command line, so the token must not be in it.
    """
    # The folder has mode 0700, on every system.
    with TemporaryDirectory(prefix="di-dashboard-") as folder:
        file = Path(folder) / "open.html"
        file.touch(mode=0o600)
        where = escape(url)
        file.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={where}">'
            f'<title>di dashboard</title><a href="{where}">The page</a>\n'
        )
        yield file.as_uri()


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


def _scope(client: SyncKubeClient, access: Access) -> str | None:
    """None: who looks may list the jobs of all namespaces."""
    try:
        client.list(DIJOBS, None, field_selector="metadata.name=none")
    except Forbidden:
        return access.namespace
    return None


def _with_streams(
    app: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Answer, and go on with a stream in the thread of the request."""
    answer = app(environ, start_response)
    if (stream := environ.get(STREAM)) is None:
        return answer
    going_on = () if environ["REQUEST_METHOD"] == "HEAD" else in_a_thread(stream)
    # Flask's hooks at the end of a request hang on the first.
    ends = [getattr(answer, "close", lambda: None), stream.close]
    return ClosingIterator(chain(answer, going_on), ends)


def _not_yet(environ: object, start: object) -> list[bytes]:
    raise RuntimeError("the application is put in before the server runs")
