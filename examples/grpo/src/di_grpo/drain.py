"""Being asked to finish: the kubelet asks before the pod of an engine that is not wanted goes."""

from __future__ import annotations

import threading

from di_grpo.client import Answer
from di_grpo.hub import Request


class Drain:
    """Whoever asks is answered when there is nothing left to bring."""

    def __init__(self) -> None:
        self._asked, self._finished = threading.Event(), threading.Event()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def finish(self) -> None:
        """There is nothing left."""
        self._finished.set()

    def answer(self, request: Request) -> Answer:
        """
        Raises:
            LookupError: there is no such path.
        """
        if (request.method, request.path) != ("GET", "/drain"):
            raise LookupError(request.path)
        self._asked.set()
        self._finished.wait()
        return Answer(200)
