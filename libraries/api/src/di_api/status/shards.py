"""The counts of data shards in `status.shards`, which di-server writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from typing_extensions import override

from di_api.field_error import mapping
from di_api.timestamps import parse_time

FIELD: Final = "shards"
"""Field name in the status of a job."""
MAX_SETS: Final = 8
"""Maximum number of data sets of a job."""
LEASES_FIELD: Final = "leases"
"""Field of a data set with the shards of each worker, as texts: the API server spends a fixed time
on each value of an object, and a thousand workers have a thousand leases.
"""
_NO_POD: Final = "-"
_LARGEST: Final = 2**53
_DIGITS: Final = 15
_SLOW_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCounts:
    """How far the workers of a job are in a data set.

    Attributes:
        done, total: numbers of shards of all epochs.
        under_way: shards that workers have.
        workers: number of workers that have some.
        epoch, epochs: number of the present epoch, from 1, and of all.
        slow: workers that have used up more than half of their lease, slowest first.
    """

    name: str
    done: int
    total: int
    under_way: int
    workers: int
    epoch: int
    epochs: int
    slow: tuple[str, ...]

    @override
    def __str__(self) -> str:
        text = f"{self.done} of {self.total} done, epoch {self.epoch} of {self.epochs}"
        if self.workers:
            plural = "" if self.workers == 1 else "s"
            text = f"{text}, {self.under_way} with {self.workers} worker{plural}"
        if self.slow:
            more = ", ..." if len(self.slow) > _SLOW_SHOWN else ""
            text = f"{text}; slow: {', '.join(self.slow[:_SLOW_SHOWN])}{more}"
        return text


def lease_text(*, until: str, pod: str, shards: str) -> str:
    """Return the text of a worker's lease: its end, the worker's pod and its shards."""
    return f"{until} {pod or _NO_POD} {shards}"


def lease_parts(text: object) -> tuple[str, str, str]:
    """Return end, pod and shards of a lease's text; empty texts if it has another form."""
    parts = text.split(" ") if isinstance(text, str) else []
    if len(parts) != 3:
        return "", "", ""
    until, pod, shards = parts
    return until, "" if pod == _NO_POD else pod, shards


def read_shard_counts(status: Mapping[str, Any], now: datetime) -> tuple[ShardCounts, ...]:
    """Return the counts of each data set by name, from a status of any shape."""
    found = sorted(mapping(status.get(FIELD)).items())[:MAX_SETS]
    return tuple(_read(str(name), mapping(raw), now) for name, raw in found)


def _read(name: str, raw: Mapping[str, Any], now: datetime) -> ShardCounts:
    found = mapping(raw.get(LEASES_FIELD))
    leases = {str(each): lease_parts(lease) for each, lease in found.items()}
    half = timedelta(seconds=_number(raw.get("leaseSeconds")) / 2)
    ends = {
        each: end
        for each, (until, _, _) in leases.items()
        if (end := parse_time(until)) is not None
    }
    slow = [each for each, end in ends.items() if end - now < half]
    return ShardCounts(
        name=name,
        done=_number(raw.get("done")),
        total=_number(raw.get("total")),
        under_way=sum(sum(_sizes(shards)) for _, _, shards in leases.values()),
        workers=len(leases),
        epoch=_number(raw.get("epoch")) + 1,
        epochs=_number(raw.get("epochs")),
        slow=tuple(sorted(slow, key=lambda each: (ends[each], each))),
    )


def _sizes(text: object) -> Iterator[int]:
    """Yield the size of each range of a text such as `0-3,7`."""
    for part in text.split(",") if isinstance(text, str) and text else ():
        first, _, last = part.partition("-")
        ends = (first, last or first)
        if all(each.isdecimal() and len(each) <= _DIGITS for each in ends):
            yield max(0, int(ends[1]) - int(ends[0]) + 1)


def _number(value: object) -> int:
    # A value that was written by hand may be anything.
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= _LARGEST else 0
