"""The drain request, which asks a pod to finish its work: `drain` of its task."""

from __future__ import annotations

import threading
from collections.abc import Collection

from di_orchestrator.pods.hub import Hub
from di_orchestrator.pods.messages import Answering, Asked, Reply, reply_of

MOST_SECONDS = 3600.0
"""Maximum `timeoutSeconds` of a drain; the kubelet has stopped waiting by then."""


class Drain:
    """Answers the kubelet's GET when the program reports that it is done.

    For programs without an HTTP server. The task declares

        drain: {path: /drain, port: 8001, timeoutSeconds: 60}

    and the program

        with di.Drain(8001) as drain:
            while not drain.asked:
                ...          # take work and do it
            drain.done()     # all of it is done

    Args:
        port: port on all addresses; 0: any free one.
        path: of the task's drain.
        answer: handles all other requests; by default they get 404.
        public: as in `Hub`. The kubelet sends a token that allows only the drain request.
    """

    def __init__(
        self,
        port: int,
        path: str = "/drain",
        *,
        answer: Answering | None = None,
        public: Collection[str] = (),
    ) -> None:
        self._path = path
        self._others = answer
        self._asked = threading.Event()
        self._done = threading.Event()
        self._hub = Hub(self._answer, port, public=public, drain=path)
        self.port: int = self._hub.port

    def __enter__(self) -> Drain:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()
        self._hub.close()

    @property
    def asked(self) -> bool:
        """True once the pod was asked to drain: take no new work."""
        return self._asked.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the drain request; return whether it has arrived."""
        return self._asked.wait(seconds)

    def done(self) -> None:
        """Report that all work is finished: the drain request is answered, and SIGTERM follows."""
        self._done.set()

    def _answer(self, asked: Asked) -> Reply:
        if (asked.method, asked.path) == ("GET", self._path):
            self._asked.set()
            self._done.wait(MOST_SECONDS)
            return Reply()
        return Reply(404) if self._others is None else reply_of(self._others(asked))
