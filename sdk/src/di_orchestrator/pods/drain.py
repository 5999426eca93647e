"""How a pod is asked to finish what it has, and says that it is done: `drain` of its task."""

from __future__ import annotations

import threading
from collections.abc import Collection

from di_orchestrator.pods.hub import Answering, Asked, Hub, Reply

MOST_SECONDS = 3600.0
"""The longest `timeoutSeconds` of a drain; after it the kubelet has long given up."""


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
        answer: of whatever else is asked there; by default that is not found.
        public: as a `Hub` has it. The kubelet shows a token with which it may ask to drain.
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
        """Whether the pod was asked: take nothing new."""
        return self._asked.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is asked; whether it is."""
        return self._asked.wait(seconds)

    def done(self) -> None:
        """All is finished: the drain request is answered, and SIGTERM follows."""
        self._done.set()

    def _answer(self, asked: Asked) -> Reply:
        if (asked.method, asked.path) == ("GET", self._path):
            self._asked.set()
            self._done.wait(MOST_SECONDS)
            return Reply()
        return Reply(404) if self._others is None else self._others(asked)
