"""How a pod is asked to finish what it has, and says that it is done: `drain` of its task."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_SECONDS = 3600.0
"""The longest `timeoutSeconds` of a drain; after it the kubelet has long given up."""
ANSWER_SECONDS = 5.0
"""How long the end of a program waits until those who asked have their answer."""


class Drain:
    """Answers the kubelet's GET when the program says that it is done.

    For programs that serve no HTTP themselves. The task says

        drain: {path: /drain, port: 8001, timeoutSeconds: 60}

    and the program

        with di.Drain(8001) as drain:
            while not drain.asked:
                ...          # take work and do it
            drain.done()     # all of it is done

    Args:
        port: where it listens, on all addresses; 0: any.
        path: of the task's drain.
    """

    def __init__(self, port: int, path: str = "/drain") -> None:
        self._asked = threading.Event()
        self._done = threading.Event()
        self._waiting = _Waiting()
        handler = _handler(path, self._asked, self._done, self._waiting)
        self._server = ThreadingHTTPServer(("", port), handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, daemon=True, name="di-drain"
        )
        self._thread.start()

    def __enter__(self) -> Drain:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()
        self._waiting.all_answered(ANSWER_SECONDS)
        self._server.shutdown()
        self._server.server_close()

    @property
    def asked(self) -> bool:
        """Whether the pod was asked: take nothing new."""
        return self._asked.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is asked; whether it is."""
        return self._asked.wait(seconds)

    def done(self) -> None:
        """All is finished: whoever asks is answered, and SIGTERM follows."""
        self._done.set()


class _Waiting:
    """Those who have asked and are not answered yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def all_answered(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, seconds)


def _handler(
    path: str, asked: threading.Event, done: threading.Event, waiting: _Waiting
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != path:
                self.send_error(404)
                return
            with waiting:
                asked.set()
                done.wait(MOST_SECONDS)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing on stderr, which is the program's."""

    return Handler
