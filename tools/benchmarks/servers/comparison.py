"""The time of a comparison: twenty ended jobs of 100,000 reports each, from a request to the page.

`python -m tools.benchmarks.servers.comparison` writes them to SQLite with the service's own writer,
runs di-history and `di dashboard` as processes, and asks for the page as a browser does. It prints
the seconds of an answer and the processor time of both. The API server is a stand-in, which both
only list and watch.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import requests

from di_history.records import JobSeen, Record, Revision, Sample
from di_history.store.engine import migrate, open_engine
from di_history.store.writer import Writer
from tests.fakes.api_server import StandIn
from tests.integration.history_process import HistoryProcess, running_history
from tools.benchmarks.processes import cpu_seconds, family
from tools.benchmarks.servers.open_pages import page_of

_EVERY: Final = 30
"""Milliseconds between two reports. The history thins those that are older than an hour."""
_NAMESPACE: Final = "rl"
_MANIFEST: Final = b'{"metadata":{"labels":{}},"spec":{"tasks":[]}}'
_AT_ONCE: Final = 20_000
_REST_SECONDS: Final = 3.0
_REST_PART: Final = 0.02
"""Of a processor, that a process uses at rest."""
_JOB_BYTES: Final = 1 << 30
"""Of one job: more than all its reports."""


def records_of(number: int, reports: int, rng: random.Random) -> Iterator[Record]:
    """A job that has just ended and was deleted, with so many reports within an hour."""
    uid, name = f"job-{number:08}", f"train-{number}"
    ended = int(1000 * time.time())
    began = ended - _EVERY * reports
    yield JobSeen(
        uid=uid,
        namespace=_NAMESPACE,
        name=name,
        owner="di",
        created=began,
        phase="Succeeded",
        completed=ended,
        seen=began,
        version=1,
        snapshot=b"{}",
    )
    yield Revision(job=uid, number=1, at=began, who="di", manifest=_MANIFEST)
    for step in range(reports):
        value = 500 * (1 - math.exp(-step / reports * 4)) + rng.gauss(0, 20)
        values = {
            "step": float(step),
            "return": value,
            "loss": rng.random(),
            "envSteps": 64.0 * step,
        }
        yield Sample(job=uid, at=began + _EVERY * step, values=values)


def write(database: str, *, jobs: int, reports: int) -> None:
    """Write the jobs into a new database."""
    rng = random.Random(7)
    engine = open_engine(database)
    migrate(engine)
    writer = Writer(engine, job_log_bytes=1 << 20, job_bytes=_JOB_BYTES)
    batch: list[Record] = []
    for number in range(jobs):
        for record in records_of(number, reports, rng):
            batch.append(record)
            if len(batch) >= _AT_ONCE:
                writer.write(batch)
                batch = []
    writer.write(batch)
    engine.dispose()


@dataclass(slots=True)
class Course:
    """What was measured, in seconds.

    Attributes:
        first: until a page of a process that has just started.
        again: until the same jobs by another metric, by what the page has kept.
        history, page: processor time of a first page.
    """

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    history: list[float] = field(default_factory=list)
    page: list[float] = field(default_factory=list)


def measure(world: StandIn, folder: Path, history: HistoryProcess, jobs: int, into: Course) -> None:
    """Ask a new process of the page twice."""
    address = f"http://127.0.0.1:{history.port}"
    with page_of(world, folder, address) as (url, pid), requests.Session() as session:
        root = urlsplit(url)
        session.get(url, timeout=60).raise_for_status()
        compared = [("job", f"{_NAMESPACE}/train-{number}") for number in range(jobs)]
        before = _used(history.process.pid), _used(pid)
        for metric, times in (("return", into.first), ("loss", into.again)):
            began = time.perf_counter()
            answer = session.get(
                f"{root.scheme}://{root.netloc}/compare",
                params=[*compared, ("metric", metric)],
                timeout=60,
            )
            times.append(time.perf_counter() - began)
            answer.raise_for_status()
            assert f"{jobs} jobs compared" in answer.text
            if times is into.first:
                into.history.append(_used(history.process.pid) - before[0])
                into.page.append(_used(pid) - before[1])


def _used(pid: int) -> float:
    return sum(map(cpu_seconds, family(pid)))


def _wait_for_rest(pid: int) -> None:
    """Wait until a process has nothing to do: at its start the history sweeps through all."""
    used = _used(pid)
    while True:
        time.sleep(_REST_SECONDS)
        before, used = used, _used(pid)
        if used - before < _REST_PART * _REST_SECONDS:
            return


def main() -> None:
    """Print the seconds of a first page, and of the next one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    course = Course()
    with StandIn() as world, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        database = f"sqlite:///{folder}/history.db"
        write(database, jobs=given.jobs, reports=given.reports)
        config = world.kubeconfig(folder / "config")
        with running_history(folder, config, database, job_bytes=str(_JOB_BYTES)) as history:
            _wait_for_rest(history.process.pid)
            for _ in range(given.rounds):
                measure(world, folder, history, given.jobs, course)
    print(
        f"{given.jobs} jobs of {given.reports:,} reports, medians of {given.rounds} (to the most)"
    )
    for name in course.__dataclass_fields__:
        found = getattr(course, name)
        print(f"{name}: {statistics.median(found):.2f} s ({max(found):.2f})")


if __name__ == "__main__":
    main()
