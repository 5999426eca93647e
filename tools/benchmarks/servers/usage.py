"""The time of an answer about usage, for 10,000 jobs of a month.

`python -m tools.benchmarks.servers.usage` prints the seconds of each grouping, from SQLite. A job
has four pods, six phases and thirty reports, as many as the history keeps of two hours after a day.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from typing import Final

from di_history.records import Entry, EntryKind, JobSeen, Placement, Record, Revision, Sample
from di_history.rest.usage import UsageAnswers, query_of
from di_history.store.engine import migrate, open_engine
from di_history.store.writer import Writer
from di_history.usage.prices import Prices

T0: Final = 1_767_225_600_000
HOUR: Final = 3_600_000
MONTH: Final = 31 * 24 * HOUR
PODS: Final = 4
REPORTS: Final = 30
PHASES: Final = ("Pending", "Starting", "Running", "Restarting", "Starting", "Running")
_AT_ONCE: Final = 20_000
_ROUNDS: Final = 5
_ASKED: Final = (
    {"by": "user"},
    {"by": "queue"},
    {"by": "sweep", "split": "useful"},
    {"by": "job", "split": "phases,useful", "every": "month"},
)


def records_of(number: int, rng: random.Random) -> Iterator[Record]:
    """All that one job leaves that counts for usage."""
    uid, namespace = f"job-{number:08}", f"team-{number % 20}"
    began = T0 + rng.randrange(MONTH - 2 * HOUR)
    labels = {
        "kueue.x-k8s.io/queue-name": f"queue-{number % 7}",
        "diengine/sweep": f"s{number % 300}",
    }
    variables = [{"name": f"V{i}", "value": f"{rng.getrandbits(32):x}"} for i in range(20)]
    tasks = [
        {"type": kind, "template": {"spec": {"containers": [{"env": variables}]}}}
        for kind in ("learner", "collector")
    ]
    manifest = json.dumps({"metadata": {"labels": labels}, "spec": {"tasks": tasks}}).encode()
    yield JobSeen(
        uid=uid,
        namespace=namespace,
        name=f"train-{number}",
        owner="di",
        created=began,
        phase="Succeeded",
        completed=began + 2 * HOUR,
        seen=began,
        version=1,
        snapshot=b"{}",
    )
    who = f"user-{number % 40} (di)"
    yield Revision(job=uid, number=1, at=began, who=who, manifest=manifest)
    for place, phase in enumerate(PHASES):
        yield Entry(
            job=uid,
            key=f"phase/{place}",
            kind=EntryKind.PHASE,
            at=began + place * HOUR // 3,
            version=place,
            data={"phase": phase, "before": PHASES[place - 1] if place else "", "message": "x"},
        )
    for place in range(REPORTS):
        values = {"step": float(place), "learnerWaitFrac": rng.random(), "staleFrac": rng.random()}
        at = began + place * 2 * HOUR // REPORTS
        yield Sample(job=uid, at=at, values={**values, "loss": rng.random(), "sps": 1e4})
    for pod in range(PODS):
        yield Placement(
            pod_uid=f"{uid}-{pod}",
            job=uid,
            namespace=namespace,
            pod=f"p{pod}",
            task="learner" if pod == 0 else "collector",
            rank=pod,
            node=f"n{pod}",
            gpus=1,
            since=began,
            until=began + 2 * HOUR,
            outcome="Succeeded",
            reason="",
            exit_code=0,
            version=1,
            kind="a100",
        )


def main() -> None:
    """Write the jobs, and print the seconds of each answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    jobs = parser.parse_args().jobs
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"sqlite:///{folder}/history.db")
        migrate(engine)
        writer = Writer(engine, job_log_bytes=1 << 20, job_bytes=40 << 20)
        batch: list[Record] = []
        for number in range(jobs):
            batch += records_of(number, rng)
            if len(batch) >= _AT_ONCE or number == jobs - 1:
                writer.write(batch)
                batch = []
        answers = UsageAnswers(engine, Prices(label="gpu", hourly={"a100": 2.5}))
        for asked in _ASKED:
            query = query_of({"since": "2026-01-01T00:00:00Z", **asked}, T0 + MONTH)
            times, computing = [], []
            for _ in range(_ROUNDS):
                began, used = time.perf_counter(), time.process_time()
                found = answers.answer(query)
                computing.append(time.process_time() - used)
                times.append(time.perf_counter() - began)
            assert found["total"]["pods"] == PODS * jobs
            text = " ".join(f"{key}={value}" for key, value in asked.items())
            slowest = f"{min(times):.2f} s, the slowest of {_ROUNDS} {max(times):.2f} s"
            print(f"{text}: {slowest}; processor {min(computing):.2f} s")
        engine.dispose()


if __name__ == "__main__":
    main()
