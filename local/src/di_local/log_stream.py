"""The log of a container over HTTP, in the form of an API server (core/v1,
read_namespaced_pod_log).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from aiohttp import web

from di_local.api.refused import Refused
from di_local.logs import LOOK_SECONDS, LineReader, Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parsed query of a request for a log."""

    follow: bool
    tail: int | None
    since: datetime | None
    with_times: bool

    @classmethod
    def of(cls, query: Mapping[str, str], now: datetime) -> Wanted:
        """Parse a query. Raises Refused."""
        if query.get("previous") == "true":
            raise Refused(400, "BadRequest", "one log here has all restarts in a pod")
        try:
            tail = int(query["tailLines"]) if "tailLines" in query else None
            since = datetime.fromisoformat(query["sinceTime"]) if "sinceTime" in query else None
            if "sinceSeconds" in query:
                since = now - timedelta(seconds=int(query["sinceSeconds"]))
        except (ValueError, OverflowError) as error:
            raise Refused(
                400, "BadRequest", f"tailLines, sinceTime, sinceSeconds: {error}"
            ) from error
        if tail is not None and tail < 0:
            raise Refused(422, "Invalid", "tailLines must not be negative")
        return cls(
            follow=query.get("follow") == "true",
            tail=tail,
            since=since,
            with_times=query.get("timestamps") == "true",
        )


async def log_stream(
    request: web.Request, path: Path, *, times: Times, is_over: Callable[[], bool]
) -> web.StreamResponse:
    """Respond with a log; `is_over` returns whether the log is complete. Raises Refused."""
    wanted = Wanted.of(request.query, times.now())
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    reader = LineReader(path)
    lines = _chosen(reader, path, times, wanted)
    while True:
        # Read before the last part of the log, or lines in between would be lost.
        ends = not wanted.follow or is_over()
        for end, line in lines:
            await response.write(_shown(line, times.of(path, end), wanted))
        if ends:
            return response
        await asyncio.sleep(LOOK_SECONDS)
        lines = reader.lines()


def _chosen(
    reader: LineReader, path: Path, times: Times, wanted: Wanted
) -> Iterable[tuple[int, bytes]]:
    lines: Iterable[tuple[int, bytes]] = reader.lines()
    since = wanted.since
    if since is not None:
        lines = (each for each in lines if times.of(path, each[0]) >= since)
    return lines if wanted.tail is None else deque(lines, maxlen=wanted.tail)


def _shown(line: bytes, time: datetime, wanted: Wanted) -> bytes:
    stamp = f"{time:%Y-%m-%dT%H:%M:%S.%fZ} ".encode() if wanted.with_times else b""
    return stamp + line + b"\n"
