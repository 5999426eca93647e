"""Responses of di-history, requested in the background so that pages wait only briefly.

A late response notifies the page, which reloads and shows it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from typing import Any, Final

Object = Mapping[str, Any]

FRESH_SECONDS: Final = 3.0
"""Seconds for which a response is shown before a new request."""
PATIENCE: Final = 1.0
"""Seconds for which a page waits for the first response."""
_AWAY_SECONDS: Final = 20.0
"""Seconds without requests after di-history did not respond."""
_MOST: Final = 256
_MOST_BYTES: Final = 32 << 20
"""Maximum bytes of the bodies of cached responses; parsed, they take several times as much."""
_LOGS: Final = "/logs/"
_AT_ONCE: Final = 4
_MOST_UNDERWAY: Final = 64
_AWAY: Final = "The history is away"

log = logging.getLogger(__name__)


class NotKept(Exception):
    """di-history has nothing with that name; has its message."""


class Away(Exception):
    """di-history does not respond; has the reason."""


class Refused(Exception):
    """di-history refused the request; has its message."""


Ask = Callable[[str, str, Mapping[str, str]], bytes]
"""Function from namespace, path below `/v1` and query to a body. Raises NotKept, Away or
Refused.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A response.

    Attributes:
        value: parsed JSON; empty if there is none.
        text: body of a response that is not JSON.
        wrong: why there is none; empty if di-history has nothing, or is not configured.
        is_refused: whether it is because the user is not allowed to read it.
    """

    value: Object = field(default_factory=dict)
    text: str = ""
    wrong: str = ""
    is_refused: bool = False

    @property
    def note(self) -> str:
        """Return the sentence for `wrong`; empty without it."""
        if not self.wrong:
            return ""
        begin = "You are not allowed to read the history" if self.is_refused else _AWAY
        return f"{begin}: {self.wrong}."


_Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Kept:
    """Sends requests from threads and caches the responses briefly. Thread-safe.

    Args:
        ask: sends a request; None means that di-history is not configured.
        tell: called with the topic of a page when a late response for it has arrived.
    """

    def __init__(
        self,
        ask: Ask | None,
        *,
        tell: Callable[[str], None],
        clock: Callable[[], float],
        patience: float = PATIENCE,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._ask = ask
        self._tell = tell
        self._clock = clock
        self._patience = patience
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._told: OrderedDict[_Key, tuple[float, Told]] = OrderedDict()
        self._sizes: dict[_Key, int] = {}
        self._late: set[_Key] = set()
        self._underway: dict[_Key, Future[Told]] = {}
        self._away: tuple[float, str] | None = None
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    @property
    def is_asked(self) -> bool:
        """Return whether di-history is configured."""
        return self._ask is not None

    def get(self, namespace: str, path: str, topic: str = "", /, **query: str) -> Told:
        """Return a response, at most a moment old.

        Args:
            topic: of the page, for a late response.
        """
        found = self.begin(namespace, path, topic, **query)
        if isinstance(found, Told):
            return found
        return self._awaited(found, self._patience, _key(namespace, path, query))

    def all(self, asked: Sequence[tuple[str, str, Mapping[str, str]]], topic: str) -> list[Told]:
        """Return several responses, each for a namespace, path and query, within one wait
        in total.
        """
        found = [self.begin(where, path, topic, **query) for where, path, query in asked]
        until = self._clock() + self._patience
        return [
            each
            if isinstance(each, Told)
            else self._awaited(each, max(0.0, until - self._clock()), _key(*key))
            for each, key in zip(found, asked, strict=True)
        ]

    def begin(
        self, namespace: str, path: str, topic: str = "", /, **query: str
    ) -> Told | Future[Told]:
        """Return a cached response, else the future of one, without waiting."""
        if self._ask is None:
            return Told()
        key = _key(namespace, path, query)
        now = self._clock()
        with self._lock:
            until, told = self._told.get(key, (0.0, None))
            if told is not None and now < until:
                return told
            if self._away is not None and now < self._away[0]:
                return told or Told(wrong=self._away[1])
            underway = self._underway.get(key)
            if underway is None:
                if len(self._underway) >= _MOST_UNDERWAY:
                    return told or Told(wrong="too much is asked of it at once")
                underway = self._underway[key] = Future()
                # A daemon thread: the end of the page does not wait for di-history.
                threading.Thread(
                    target=self._run, args=(key, topic, underway), daemon=True, name="history"
                ).start()
            if told is not None:
                # It is shown until there is a newer one.
                self._late.add(key)
        return told or underway

    def _awaited(self, answer: Future[Told], seconds: float, key: _Key) -> Told:
        try:
            return answer.result(seconds)
        except NotYet:
            with self._lock:
                self._late.add(key)
                # It may have arrived in between.
                return answer.result() if answer.done() else Told(wrong="it has not answered yet")

    def _run(self, key: _Key, topic: str, answer: Future[Told]) -> None:
        with self._turns:
            answer.set_result(self._fetch(key, topic))

    def _fetch(self, key: _Key, topic: str) -> Told:
        namespace, path, query = key
        assert self._ask is not None, "nothing is fetched without it"
        away, size = "", 0
        try:
            body = self._ask(namespace, path, dict(query))
            told, size = _read(body, is_text=_LOGS in path), len(body)
        except NotKept:
            told = Told()
        except Refused as error:
            told = Told(wrong=str(error), is_refused=True)
        except Away as error:
            told = Told(wrong=(away := str(error)))
        except Exception as error:
            # A defect of ours must not leave the page without a response.
            log.exception("the history could not be asked")
            told = Told(wrong=f"it could not be asked: {type(error).__name__}")
        with self._lock:
            now = self._clock()
            before = self._told.pop(key, (0.0, None))[1]
            self._underway.pop(key, None)
            if away:
                self._away = (now + _AWAY_SECONDS, away)
            else:
                self._away = None
            self._told[key] = (now + (_AWAY_SECONDS if told.wrong else FRESH_SECONDS), told)
            self._sizes[key] = size
            self._drop_oldest()
            is_late = key in self._late
            self._late.discard(key)
        if topic and is_late and told != before:
            self._tell(topic)
        return told

    def _drop_oldest(self) -> None:
        """Drop responses beyond the bounds, but not the last one."""
        total = sum(self._sizes.values())
        while len(self._told) > 1 and (len(self._told) > _MOST or total > self._most_bytes):
            key, _ = self._told.popitem(last=False)
            total -= self._sizes.pop(key)


def _key(namespace: str, path: str, query: Mapping[str, str]) -> _Key:
    return namespace, path, tuple(sorted(query.items()))


def _read(body: bytes, *, is_text: bool) -> Told:
    if is_text:
        return Told(text=body.decode("utf-8", "replace"))
    try:
        found = json.loads(body)
    except ValueError:
        return Told(wrong="its answer is no JSON")
    return Told(value=found if isinstance(found, dict) else {})
