"""gunicorn as it is run here: TLS whose certificate follows its files, and no patience.

A plain threaded worker lets a client hold a thread for as long as it likes by sending slowly,
and waits in its main loop for a client to close. Here a request has a deadline, a connection
that says nothing holds no thread, and lingering is done by the thread that answered.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # has no types
from gunicorn.workers import gthread  # type: ignore[import-untyped]  # has no types
from typing_extensions import override

from di_api.linger import linger, shut_down
from di_webhook.certificate import ServingCertificate
from di_webhook.config import Config
from di_webhook.logs import gunicorn_log_config

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Seconds from the first byte of a request to its answer. The API server gives a webhook 5 s;
# checked once a second, so that a slow client is gone within those 5 s as well.
REQUEST_DEADLINE: Final = 4.0
# Longer than the API server keeps an idle connection (90 s), so that it is never this side that
# closes one just as a review is sent on it.
KEEP_ALIVE: Final = 120
# Time for reviews in flight at SIGTERM; each has 5 s.
DRAIN: Final = 10


class DeadlineWorker(gthread.ThreadWorker):  # type: ignore[misc]  # base has no types
    """The threaded worker with a deadline for each request."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadlines: dict[gthread.TConn, float] = {}
        self._deadlines_lock = threading.Lock()

    @override
    def handle(self, conn: gthread.TConn) -> object:
        if not conn.initialized and not conn.wait_for_data(0):
            # Nothing sent yet: wait in the poller, not in a thread.
            return gthread._DEFER
        with self._deadline(conn):
            keep = self._answer(conn)
        if not keep:
            # Here, or the main loop would do it and keep all others waiting.
            linger(conn.sock)
        return keep

    def _answer(self, conn: gthread.TConn) -> object:
        if not conn.initialized:
            try:
                conn.init()
            except OSError as error:
                self.log.debug("TLS handshake failed: %s", error)
                return False
            if _is_silent(conn):
                # The API server opens a connection for each of a burst of reviews and may then
                # use another that has become free: this one stays silent, for a minute or more.
                return gthread._DEFER
        return super().handle(conn)

    @contextlib.contextmanager
    def _deadline(self, conn: gthread.TConn) -> Iterator[None]:
        """Have the connection shut down if the block takes longer than a request may."""
        with self._deadlines_lock:
            self._deadlines[conn] = time.monotonic() + REQUEST_DEADLINE
        try:
            yield
        finally:
            with self._deadlines_lock:
                del self._deadlines[conn]

    @override
    def murder_pending(self) -> None:
        """Close what is overdue; the main loop calls this at least once a second."""
        if not self.alive:
            # Connections that have not said anything yet must not hold up the end.
            for conn in self.pending_conns:
                conn.timeout = 0.0
        super().murder_pending()
        now = time.monotonic()
        with self._deadlines_lock:
            for conn, deadline in self._deadlines.items():
                if now >= deadline:
                    # Wakes the thread that reads or writes; it sees the end of the stream.
                    shut_down(conn.sock, socket.SHUT_RDWR)


class Gunicorn(BaseApplication):  # type: ignore[misc]  # base has no types
    """One worker process with threads: one registry of metrics; scale by replicas."""

    def __init__(
        self,
        *,
        config: Config,
        certificate: ServingCertificate,
        load: Callable[[], WSGIApplication],
    ) -> None:
        self._config = config
        self._certificate = certificate
        self._load = load
        super().__init__()

    @override
    def load_config(self) -> None:
        certificate = self._certificate
        settings: dict[str, Any] = {
            "bind": [self._config.bind],
            "workers": 1,
            "threads": self._config.threads,
            "worker_class": DeadlineWorker,
            "keepalive": KEEP_ALIVE,
            "graceful_timeout": DRAIN,
            # Any file that exists: it tells gunicorn to serve TLS and is never read, since the
            # context comes from below, asked for by each new connection. The real file may
            # not be there yet: the operator makes it after the webhook has started.
            "certfile": os.devnull,
            "ssl_context": lambda _config, _default: certificate.context(),
            "logconfig_dict": gunicorn_log_config(self._config.log_level),
            "loglevel": self._config.log_level,
            "control_socket_disable": True,
        }
        if os.access("/dev/shm", os.W_OK):
            # The worker's heart-beat file: not on a root file system that may be read-only.
            settings["worker_tmp_dir"] = "/dev/shm"
        for key, value in settings.items():
            self.cfg.set(key, value)

    @override
    def load(self) -> WSGIApplication:
        return self._load()


def _is_silent(conn: gthread.TConn) -> bool:
    """Whether the client has sent nothing after its part of the handshake."""
    conn.data_ready = False
    return not conn.sock.pending() and not conn.wait_for_data(0)
