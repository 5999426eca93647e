"""What a watch cache has counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class CacheStats:
    """Counters since the start, for metrics.

    Attributes:
        events: changes the watch brought.
        stale: events refused because something newer of the same object was known.
        lists: times the whole collection replaced the cache; the first one included.
        polls: periodic comparisons done by `relist`.
        repairs: differences `relist` found: what the watch had lost, or had not brought yet.
        streams: watch streams opened, the first one included.
        errors: attempts that failed.
        unreadable: objects that `transform`, an index or a subscriber could not bear.
    """

    events: int = 0
    stale: int = 0
    lists: int = 0
    polls: int = 0
    repairs: int = 0
    streams: int = 0
    errors: int = 0
    unreadable: int = 0
