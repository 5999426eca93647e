"""How long a watch waits, and for what."""

from __future__ import annotations

from dataclasses import dataclass

from di_kube.wire import WATCH_SILENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """Times in seconds.

    Attributes:
        silence: a stream without a byte for so long is opened again; above the bookmark period of
            60.
        stream: the server is asked to end a stream after one to two times this, so that many
            streams do not end together and a moved connection is found.
        backoff_minimum, backoff_maximum: bounds of the wait before the next attempt.
        empty_streams: so many streams in a row that end well within `empty` without a single
            event mean that the version we hold leads nowhere: take the collection again.
        empty: see `empty_streams`.
    """

    silence: float = WATCH_SILENCE
    stream: float = 300.0
    backoff_minimum: float = 0.1
    backoff_maximum: float = 30.0
    empty_streams: int = 3
    empty: float = 10.0
