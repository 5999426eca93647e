"""What the history costs: a part of a day of 10,000 jobs of 50 pods each, on both databases.

`python -m tools.benchmarks.servers.history --jobs 1000` writes out/bench/history.json and prints
the table of docs/how-to/history.md. The records are what an eventful hour of a job leaves, their
writer is the service's own. `--lists 100000` has so many jobs without records in SQLite, and prints
how long a list of a hundred of them takes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, text

from di_history.batches import AT_ONCE
from di_history.config import AuthMode
from di_history.metrics import Metrics
from di_history.records import (
    EndedLog,
    Entry,
    EntryKind,
    JobGone,
    JobSeen,
    Placement,
    Record,
    Revision,
    Sample,
)
from di_history.rest.access import Access
from di_history.rest.app import create_app
from di_history.rest.usage import UsageAnswers
from di_history.store.engine import migrate, open_engine, size_of
from di_history.store.reader import Reader, Wanted
from di_history.store.retention import Retention, sweep
from di_history.store.writer import Writer
from di_history.usage.prices import Prices
from tests.postgres import new_database, running_postgres

OUT: Final = Path(__file__).resolve().parents[3] / "out" / "bench" / "history.json"
PODS: Final = 50
EVENTS: Final = 2 * PODS + 12
PHASES: Final = ("Pending", "Starting", "Running", "Restarting", "Running", "Succeeded")
SAMPLES: Final = 120
LOG_LINES: Final = 400
CHATTY: Final = 100
"""One job in so many has logs of a mebibyte a pod."""
A_DAY: Final = 10_000
T0: Final = 1_767_268_800_000
HOUR: Final = 3_600_000
JOB_LOG_BYTES: Final = 1_700_000
_QUERIES: Final = 200
_LISTS: Final = 9


def records_of(number: int, rng: random.Random) -> Iterator[Record]:
    """All that one job leaves, in about the order in which it comes."""
    uid, name = f"job-{number:08}", f"train-{number}"
    began = T0 + number * 8_640
    manifest = json.dumps({"spec": {"tasks": [_task(rng, kind) for kind in ("learner", "actor")]}})

    def seen(version: int, phase: str, completed: int | None = None) -> JobSeen:
        return JobSeen(
            uid=uid,
            namespace=f"team-{number % 20}",
            name=name,
            owner="kubectl-client-side-apply",
            created=began,
            phase=phase,
            completed=completed,
            seen=began,
            version=version,
            snapshot=manifest.encode(),
        )

    for revision in range(3):
        raw = manifest.encode()
        yield Revision(job=uid, number=revision + 1, at=began, who="di-server", manifest=raw)
    for at, phase in enumerate(PHASES):
        yield seen(at + 1, phase)
        data: dict[str, Any] = {
            "phase": phase,
            "before": "",
            "reason": f"Job{phase}",
            "message": "all pods ready",
        }
        yield _entry(uid, f"phase/{at}", EntryKind.PHASE, began + at * 1000, data)
    for at in range(EVENTS):
        data = {"type": "Normal", "reason": "Pulled", "object": f"Pod/{name}-actor-{at % PODS}"}
        data |= {"message": 'Container image "example.org/rl:1" already present', "count": 1}
        yield _entry(uid, f"event/{rng.getrandbits(64):x}", EntryKind.EVENT, began + at, data)
    for at in range(2):
        data = {"task": "actor", "before": 20, "after": 40 + at, "who": "di-server"}
        yield _entry(uid, f"scaling/{at}", EntryKind.SCALING, began + at, data)
    for at in range(SAMPLES):
        values = {"step": at * 1e3, "reward": rng.random(), "loss": rng.random(), "sps": 1e4}
        yield Sample(job=uid, at=began + at * 30_000, values=values)
    chatty = number % CHATTY == 0
    for pod in range(PODS):
        for ended in (False, True):
            yield _placement(uid, number, pod, began, ended=ended)
        body = rng.choice(_bodies(12_000 if chatty else LOG_LINES))
        yield EndedLog(
            job=uid,
            pod_uid=f"{uid}-{pod}",
            pod=f"{name}-actor-{pod}",
            container="di-container",
            attempt=0,
            at=began + HOUR,
            text=body,
            cut=chatty,
        )
    yield seen(100, "Succeeded", began + HOUR)
    yield JobGone(uid=uid, at=began + HOUR)


def measure(engine: Engine, jobs: int) -> dict[str, float]:
    """Write the jobs, ask for them, and sweep."""
    rng = random.Random(7)
    migrate(engine)
    with engine.connect() as connection:
        empty = size_of(connection)
    writer, written, raw, busy = (
        Writer(engine, job_log_bytes=JOB_LOG_BYTES, job_bytes=40 << 20),
        0,
        0,
        0.0,
    )
    batch: list[Record] = []
    for number in range(jobs):
        for record in records_of(number, rng):
            batch.append(record)
            raw += len(record.text or b"") if isinstance(record, EndedLog) else 0
        while len(batch) >= AT_ONCE or (batch and number == jobs - 1):
            part, batch = batch[:AT_ONCE], batch[AT_ONCE:]
            began = time.perf_counter()
            writer.write(part)
            busy += time.perf_counter() - began
            written += len(part)
    found: dict[str, float] = {
        "jobs": jobs,
        "records_per_second": written / busy,
        "records_per_job": written / jobs,
        "share_of_a_day": busy / jobs * A_DAY / 86_400,
        "log_bytes_per_job": raw / jobs,
    }
    began = time.perf_counter()
    swept = sweep(
        engine,
        Retention(age=10**13, size=1 << 50, job=40 << 20),
        now=T0,
        written=None,
        forget_elsewhere=lambda *_: None,
    )
    found["first_sweep_seconds"] = time.perf_counter() - began
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
        found["disk_bytes_per_job"] = (size_of(connection) - empty) / jobs
    weights = [job["bytes"] for job in Reader(engine).jobs(Wanted(limit=500))]
    found |= {
        "stored_bytes_per_job": swept.size / jobs,
        "largest_job_bytes": max(weights),
        "median_job_bytes": statistics.median(weights),
    }
    return found | _ask(engine, jobs, rng)


def lists(engine: Engine, jobs: int) -> dict[str, float]:
    """Keep so many jobs without their records; return the milliseconds of each list, the median."""
    migrate(engine)
    writer = Writer(engine, job_log_bytes=JOB_LOG_BYTES, job_bytes=40 << 20)
    rng = random.Random(7)
    seen = (each for n in range(jobs) for each in records_of(n, rng) if isinstance(each, JobSeen))
    while batch := [*islice(seen, AT_ONCE)]:
        writer.write(batch)
    reader, found = Reader(engine), dict[str, float]()
    for name, wanted in {
        "the newest": Wanted(),
        "of a namespace": Wanted(namespace="team-3"),
        "of a name": Wanted(namespace="team-7", name="train-7"),
        "that have ended": Wanted(is_over=True),
        "in a phase that none has": Wanted(phase="Failed"),
        "behind nine tenths of all": Wanted(before=(T0 + 8_640 * jobs // 10, "")),
    }.items():
        times = []
        for _ in range(_LISTS):
            began = time.perf_counter()
            reader.jobs(wanted)
            times.append(1000 * (time.perf_counter() - began))
        found[name] = round(statistics.median(times), 1)
    return found


def _ask(engine: Engine, jobs: int, rng: random.Random) -> dict[str, float]:
    client = create_app(
        reader=Reader(engine),
        usage=UsageAnswers(engine, Prices()),
        whole_logs=None,
        access=Access(mode=AuthMode.OFF, kube=_Nobody(), review_rate=1.0, clock=time.monotonic),
        is_ready=lambda: True,
        now=lambda: T0,
        metrics=Metrics(),
        clock=time.perf_counter,
    ).test_client()

    def path(rest: str = "") -> str:
        number = rng.randrange(jobs)
        return f"/v1/jobs/team-{number % 20}/train-{number}{rest}"

    def log() -> str:
        number = rng.randrange(jobs)
        name = f"train-{number}"
        return f"/v1/jobs/team-{number % 20}/{name}/logs/{name}-actor-{rng.randrange(PODS)}"

    window = "since=2026-01-01T12:00:00Z&until=2026-01-01T12:05:00Z"
    asked: dict[str, Callable[[], str]] = {
        "job": path,
        "series": lambda: path("/series"),
        "log": log,
        "list": lambda: "/v1/jobs?limit=100",
        "placements": lambda: f"/v1/placements?{window}",
    }
    found = {}
    for name, make in asked.items():
        times = []
        for _ in range(_QUERIES):
            target = make()
            began = time.perf_counter()
            status = client.get(target).status_code
            times.append(1000 * (time.perf_counter() - began))
            # A chatty job has given up some of its logs.
            assert status in ((200, 404) if name == "log" else (200,)), (target, status)
        times.sort()
        found[f"{name}_ms_least"] = times[0]
        found[f"{name}_ms_p50"] = times[len(times) // 2]
        found[f"{name}_ms_p99"] = times[int(len(times) * 0.99)]
    return found


class _Nobody:
    def create(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise AssertionError("nobody is asked")


def _task(rng: random.Random, kind: str) -> dict[str, Any]:
    variables = [{"name": f"V{i}", "value": f"{rng.getrandbits(32):x}"} for i in range(20)]
    container = {"name": "di-container", "image": "example.org/rl:1", "env": variables}
    return {"type": kind, "replicas": 25, "template": {"spec": {"containers": [container]}}}


def _entry(uid: str, key: str, kind: EntryKind, at: int, data: dict[str, Any]) -> Entry:
    return Entry(job=uid, key=key, kind=kind, at=at, data=data)


def _placement(uid: str, number: int, pod: int, began: int, *, ended: bool) -> Placement:
    return Placement(
        pod_uid=f"{uid}-{pod}",
        job=uid,
        namespace=f"team-{number % 20}",
        pod=f"train-{number}-actor-{pod}",
        task="actor",
        rank=pod,
        node=f"node-{(number + pod) % 400}",
        gpus=1,
        since=began,
        until=began + HOUR if ended else None,
        outcome="Succeeded" if ended else "Running",
        reason="Completed" if ended else "",
        exit_code=0 if ended else None,
        version=2 if ended else 1,
    )


@cache
def _bodies(lines: int) -> list[bytes]:
    """Some logs of so many lines; making one takes longer than keeping it."""
    rng = random.Random(lines)
    return [b"".join(_lines(rng, lines))[-(1 << 20) :] for _ in range(40)]


def _lines(rng: random.Random, count: int) -> Iterator[bytes]:
    for step in range(count):
        yield (
            f"2026-01-01T12:{step // 60 % 60:02}:{step % 60:02}.{rng.getrandbits(29):09}Z INFO "
            f"step={step} reward={rng.random():.4f} loss={rng.random():.5f} sps={step % 997}\n"
        ).encode()


_ROWS: Final = (
    ("records a second, one writer", "records_per_second", "{:,.0f}"),
    ("records of a job", "records_per_job", "{:,.0f}"),
    ("of a day of 10,000 jobs spent writing", "share_of_a_day", "{:.1%}"),
    ("on the disk, a job", "disk_bytes_per_job", "{:,.0f} B"),
    ("median job", "median_job_bytes", "{:,.0f} B"),
    ("largest job", "largest_job_bytes", "{:,.0f} B"),
    ("its logs before, a job", "log_bytes_per_job", "{:,.0f} B"),
    ("a job's page: fastest / p50 / p99", "job", "{:.1f} / {:.1f} / {:.1f} ms"),
    ("its series", "series", "{:.1f} / {:.1f} / {:.1f} ms"),
    ("a log", "log", "{:.1f} / {:.1f} / {:.1f} ms"),
    ("a list of 100 jobs", "list", "{:.1f} / {:.1f} / {:.1f} ms"),
    ("placements of five minutes", "placements", "{:.1f} / {:.1f} / {:.1f} ms"),
)


def table(results: dict[str, dict[str, float]]) -> str:
    """The results, as docs/how-to/history.md has them."""
    lines = [f"| | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for label, key, form in _ROWS:
        cells = []
        for found in results.values():
            queried = [found.get(f"{key}_ms_{which}", 0.0) for which in ("least", "p50", "p99")]
            cells.append(form.format(*([found[key]] if key in found else queried)))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(argv: list[str]) -> None:
    """Measure both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--lists", type=int, metavar="JOBS")
    asked = parser.parse_args(argv)
    if asked.lists is not None:
        with tempfile.TemporaryDirectory() as folder:
            engine = open_engine(f"sqlite:///{folder}/history.db")
            print(json.dumps(lists(engine, asked.lists), indent=2))
            engine.dispose()
        return
    jobs, results = asked.jobs, {}
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"sqlite:///{folder}/history.db")
        results["SQLite"] = measure(engine, jobs)
        engine.dispose()
    with running_postgres() as socket:
        engine = open_engine(new_database(socket, "history"))
        results["PostgreSQL"] = measure(engine, jobs)
        engine.dispose()
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    print(table(results))


if __name__ == "__main__":
    main(sys.argv[1:])
