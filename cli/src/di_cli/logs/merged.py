"""The logs of many containers as one stream in order of time, in bounded memory.

Each log is a connection that is read as far as its next line: what is not read waits at the API
server, so no log is held in memory, however long it is.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from di_cli.logs.read import Asked, lines_of
from di_cli.logs.sources import Source
from di_cli.session import Session
from di_kube.errors import ApiError

MOST_PODS: Final = 64
"""Logs that are read at once: each takes a connection."""


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """A line of a log; in order of time."""

    time: str
    pod: str
    text: str
    """The container's own words."""


def read_all(
    session: Session,
    sources: Iterable[Source],
    asked: Asked,
    *,
    on_none: Callable[[Source, str], None],
    counts: Counter[Source] | None = None,
) -> Iterator[Line]:
    """The lines there are, in order of time.

    Args:
        on_none: is called with a container that has no log, and why it has none.
        counts: takes how many lines each container had.
    """
    counted = Counter[Source]() if counts is None else counts
    yield from heapq.merge(*(_of(session, each, asked, on_none, counted) for each in sources))


def _of(
    session: Session,
    source: Source,
    asked: Asked,
    on_none: Callable[[Source, str], None],
    counts: Counter[Source],
) -> Iterator[Line]:
    asked = replace(asked, container=source.container)
    try:
        for at, text in lines_of(session.client, session.namespace, source.pod, asked):
            counts[source] += 1
            yield Line(at, source.label, text)
    except ApiError as error:
        # The container has not begun, or has no earlier run; the API server says which.
        if error.code not in (400, 404):
            raise
        on_none(source, error.message)
