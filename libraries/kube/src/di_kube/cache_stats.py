"""Counters of a watch cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class CacheStats:
    """Counters since the start, for metrics.

    Attributes:
        events: changes received from the watch.
        stale: events ignored because a newer version of the object was known.
        lists: how often the whole collection replaced the cache, the first time included.
        polls: periodic comparisons by `relist`.
        repairs: differences that `relist` found: lost or outstanding events.
        streams: watch streams opened, the first one included.
        errors: failed attempts.
        unreadable: objects on which `transform`, an index or a subscriber failed.
    """

    events: int = 0
    stale: int = 0
    lists: int = 0
    polls: int = 0
    repairs: int = 0
    streams: int = 0
    errors: int = 0
    unreadable: int = 0
