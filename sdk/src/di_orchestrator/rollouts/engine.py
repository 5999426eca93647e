"""An inference engine: its weight version on the board, its readiness, and its drain."""

from __future__ import annotations

from typing import Any, Protocol

from di_orchestrator.pods.drain import Drain
from di_orchestrator.pods.messages import Answering, Asked, Reply, reply_of


class Say(Protocol):
    """Type of `di.say`."""

    def __call__(self, url: str, **more: Any) -> None:
        """Publish this entry on the board."""


class Rollout(Drain):
    """A `Drain` that publishes its weight version, and answers `GET /ready`.

        with di.rollout() as engine:
            while not engine.asked:
                engine.has(version)      # on the board, and ready, from now on
                ...                      # take work and do it
            engine.done()

    Args:
        port, path: of the task's drain.
        url: address for sample requests.
        say: publishes an entry on the board.
        answer: handles all other requests on the port.
    """

    def __init__(
        self, port: int, path: str, *, url: str, say: Say, answer: Answering | None = None
    ) -> None:
        self._url = url
        self._say = say
        self._more = answer
        self._is_ready = False
        super().__init__(port, path, answer=self._answer_others, public=["/ready"])

    def __enter__(self) -> Rollout:
        super().__enter__()
        return self

    def has(self, weight_version: Any, **more: Any) -> None:
        """Report new weights, with which the engine is ready; call again after a change.

        Args:
            weight_version: on the board as `weightVersion`.
            more: further data for other pods, such as `load`.
        """
        self._is_ready = True
        self._say(self._url, weightVersion=weight_version, **more)

    def lacks(self) -> None:
        """Report that there are no usable weights: the engine is not ready until `has`."""
        self._is_ready = False

    @property
    def is_ready(self) -> bool:
        """Return whether it accepts work: it has weights, and was not asked to drain."""
        return self._is_ready and not self.asked

    def _answer_others(self, asked: Asked) -> Reply:
        if (asked.method, asked.path) == ("GET", "/ready"):
            return Reply(200 if self.is_ready else 503)
        return Reply(404) if self._more is None else reply_of(self._more(asked))
