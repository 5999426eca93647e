"""The local dashboard, with the user's own permissions: the command `di dashboard`."""

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
    """A dashboard that is served.

    Attributes:
        url: with the token in it.
        cluster_cache: the cached cluster.
    """

    url: str
    cluster_cache: ClusterCache


class OneUser:
    """The sign-in of a local dashboard, whose one user has its token.

    Args:
        found: the resources of its pages.
    """

    def __init__(self, token_check: TokenCheck, found: Parts) -> None:
        self._gate = token_check
        self._found = found

    def enter(self) -> Parts | Response:
        """See `SignIn`; other callers get a page that says how to sign in."""
        put(self._found)
        return self._gate.check() or self._found


class _Handler(WSGIRequestHandler):
    # Streams are sent in chunks, and connections are reused.
    protocol_version = "HTTP/1.1"
    # Head and body are sent apart: otherwise the body would wait for the acknowledgement of the
    # head, which a client delays by up to 40 ms.
    disable_nagle_algorithm = True

    @override
    def log(self, type: str, message: str, *args: object) -> None:  # as it is there
        """Write nothing: users need no access log, and it would contain the token."""


class _Server(ThreadedWSGIServer):
    # Streams last as long as their pages; the process does not wait for them.
    daemon_threads = True
    block_on_close = False

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects during a response."""
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
    """Serve the dashboard on this machine until the end of the block.

    Args:
        access: to the API server, as the user.
        namespace: the namespace to show; None means all, or that of the context without permission
            to list all.
        port: 0 takes a free one.
        path: prefix of all addresses of the pages.
        history: access to di-history; None: not configured.

    Raises:
        ApiError: the API server does not respond, or knows neither the user nor DIJobs.
        OSError: the port is in use.
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
    """Serve the dashboard until Ctrl-C, and open it in the browser. Raises as `serving`."""
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
    """Create a file that redirects a browser to the URL, until the end of the block; yields its own
    URL.

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
    """Suppress a library's log, which is for its developers; the page shows what users need."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def until_interrupted() -> None:
    """Wait for Ctrl-C, which raises KeyboardInterrupt."""
    # In slices, because a signal right before an endless wait would not end it.
    while not threading.Event().wait(1.0):
        pass


def _server(port: int) -> _Server:
    """Return a listening server: werkzeug would end the process if the port is in use."""
    with socket.create_server((HOST, port), backlog=_BACKLOG) as bound:
        return _Server(HOST, port, _not_yet, _Handler, fd=bound.fileno())


def _scope(client: SyncKubeClient, access: Access) -> str | None:
    """Return the namespace to show; None: the user can list the jobs of all namespaces."""
    try:
        client.list(DIJOBS, None, field_selector="metadata.name=none")
    except Forbidden:
        return access.namespace
    return None


def _with_streams(
    app: WSGIApplication, environ: WSGIEnvironment, start_response: StartResponse
) -> Iterable[bytes]:
    """Respond, and continue with a stream in the thread of the request."""
    answer = app(environ, start_response)
    if (stream := environ.get(STREAM)) is None:
        return answer
    going_on = () if environ["REQUEST_METHOD"] == "HEAD" else in_a_thread(stream)
    # Flask runs its hooks for the end of a request in the first.
    ends = [getattr(answer, "close", lambda: None), stream.close]
    return ClosingIterator(chain(answer, going_on), ends)


def _not_yet(environ: object, start: object) -> list[bytes]:
    raise RuntimeError("the application is put in before the server runs")
