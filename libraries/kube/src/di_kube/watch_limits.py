"""Timeouts of a watch."""

from __future__ import annotations

from dataclasses import dataclass

from di_kube.wire import WATCH_SILENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """Times in seconds.

    Attributes:
        silence: a stream without a byte for this long is opened again; more than the bookmark
            period of 60.
        stream: the server is asked to end a stream after one to two times this, so that many
            streams do not end together and a moved connection is noticed.
        backoff_minimum, backoff_maximum: bounds of the delay before the next attempt.
        empty_streams: this many streams in a row that end well within `empty` without an event mean
            that our version is unusable: list the collection again.
        empty: see `empty_streams`.
    """

    silence: float = WATCH_SILENCE
    stream: float = 300.0
    backoff_minimum: float = 0.1
    backoff_maximum: float = 30.0
    empty_streams: int = 3
    empty: float = 10.0
