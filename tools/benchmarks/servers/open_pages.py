"""What open pages cost: many of one job that is updated all the time, on one watch of a process.

`python -m tools.benchmarks.servers.open_pages` runs `di dashboard` against a stand-in of the API
server, opens 200 pages as browsers do (each gets a server-sent event and then asks for itself),
and updates the job 60 times a second. The figures are printed, and written to
out/bench/open_pages.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

from tests.fakes.api_server import StandIn
from tests.unit.cli.conftest import JOBS, PODS, job, node, pod
from tools.benchmarks.processes import cpu_seconds

OUT: Final = Path(__file__).resolve().parents[3] / "out" / "bench" / "open_pages.json"
_NAME: Final = "grpo-7b"
_SEEN: Final = re.compile(r"<dt>Restarts</dt><dd>(\d+)</dd>")
"""The number of the update that a page shows: it is written where the restarts are."""
_WARM_UP: Final = 2.0


@dataclass(slots=True)
class Course:
    """What was measured.

    Attributes:
        answers: seconds that each page took to be answered.
        behind: seconds between an update and the end of the answer that shows it or a later one.
        sent: when each update was made.
    """

    answers: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)
    told: int = 0
    sent: list[float] = field(default_factory=list)


@contextmanager
def page_of(world: StandIn, folder: Path, history: str = "none") -> Iterator[tuple[str, int]]:
    """Run `di dashboard` until the end of the block: its address with the token, and its PID."""
    environment = {**os.environ, "KUBECONFIG": str(world.kubeconfig(folder / "config"))}
    words = ("dashboard", "--no-browser", "--history", history, "-n", "rl")
    with subprocess.Popen(
        [str(Path(sys.executable).with_name("di")), *words],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None, "it is a pipe"
            line = process.stdout.readline()
            yield line.strip().rpartition(" ")[2], process.pid
        finally:
            process.terminate()


async def measure(world: StandIn, url: str, *, pages: int, rate: int, seconds: float) -> Course:
    """Have so many pages follow the job while it is updated."""
    course = Course()
    split = urlsplit(url)
    root = f"{split.scheme}://{split.netloc}"
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
        async with session.get(url) as answer:
            answer.raise_for_status()
        begins = time.monotonic() + _WARM_UP
        ends = begins + seconds
        followers = [_follow(session, root, course, begins, ends) for _ in range(pages)]
        await asyncio.gather(_update(world, course, rate, ends), *followers)
    return course


async def _update(world: StandIn, course: Course, rate: int, ends: float) -> None:
    start = time.monotonic()
    while (now := time.monotonic()) < ends:
        number = len(course.sent)
        body = job(_NAME, "Running", restarts=number)
        course.sent.append(now)
        world.put(f"{JOBS}/{_NAME}", body)
        await asyncio.sleep(max(0.0, start + (number + 1) / rate - time.monotonic()))


async def _follow(
    session: aiohttp.ClientSession, root: str, course: Course, begins: float, ends: float
) -> None:
    """As live.js: one request at a time, and one more if there was news meanwhile."""
    news = asyncio.Event()

    async def listen() -> None:
        topic = {"topic": f"job rl/{_NAME}"}
        timeout = aiohttp.ClientTimeout(total=None)
        async with session.get(f"{root}/stream", params=topic, timeout=timeout) as answer:
            async for line in answer.content:
                if line.startswith(b"event: changed"):
                    course.told += time.monotonic() >= begins
                    news.set()

    listener = asyncio.create_task(listen())
    try:
        while (now := time.monotonic()) < ends:
            try:
                await asyncio.wait_for(news.wait(), ends - now)
            except TimeoutError:
                return
            news.clear()
            before = time.monotonic()
            async with session.get(f"{root}/jobs/rl/{_NAME}") as answer:
                text = await answer.text()
            after = time.monotonic()
            found = _SEEN.search(text)
            if before < begins or found is None:
                continue
            course.answers.append(after - before)
            # The update after the one that is shown is what the page does not know yet.
            shown = int(found[1])
            course.behind.append(after - course.sent[min(shown + 1, len(course.sent) - 1)])
    finally:
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)


def memory(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def summary(
    course: Course, *, pages: int, rate: int, seconds: float, watches: int, used: float, held: int
) -> dict[str, Any]:
    """The figures: milliseconds, bytes, shares of a processor."""

    def spread(values: Sequence[float]) -> dict[str, float]:
        cuts = statistics.quantiles(values, n=100)
        return {"p50_ms": round(1000 * cuts[49], 1), "p99_ms": round(1000 * cuts[98], 1)}

    return {
        "pages": pages,
        "updates_a_second": rate,
        "updates": len(course.sent),
        "watches": watches,
        "told_a_second_a_page": round(course.told / seconds / pages, 2),
        "answers_a_second": round(len(course.answers) / seconds, 1),
        "answer": spread(course.answers),
        "behind": spread(course.behind),
        "processors": round(used / (seconds + _WARM_UP), 2),
        "memory_bytes": held,
    }


def run(pages: int, rate: int, seconds: float) -> dict[str, Any]:
    """Do it once."""
    with StandIn() as world, tempfile.TemporaryDirectory() as folder:
        world.put("/api/v1/nodes/gpu-1", node("gpu-1", 8))
        world.put(f"{JOBS}/{_NAME}", job(_NAME, "Running", restarts=0))
        for rank, task in enumerate(("learner", "collector", "collector")):
            body = pod(_NAME, task, max(0, rank - 1), rank)
            world.put(f"{PODS}/{body['metadata']['name']}", body)
        with page_of(world, Path(folder)) as (url, pid):
            before = cpu_seconds(pid)
            course = asyncio.run(measure(world, url, pages=pages, rate=rate, seconds=seconds))
            used, held = cpu_seconds(pid) - before, memory(pid)
        # The stand-in knows no sendInitialEvents; who asks for them is refused and asks without.
        asked = [
            path
            for _, path, _ in world.requests
            if "watch=" in path and "/dijobs" in path and "sendInitialEvents" not in path
        ]
    return summary(
        course,
        pages=pages,
        rate=rate,
        seconds=seconds,
        watches=len(asked),
        used=used,
        held=held,
    )


def main() -> None:
    """Measure one page and many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--rate", type=int, default=60, help="updates of the job a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    found = [run(each, arguments.rate, arguments.seconds) for each in (1, arguments.pages)]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
