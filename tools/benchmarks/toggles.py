"""What a tenant stores who toggles a large job for an hour, and what another one keeps beside it.

`python -m tools.benchmarks.toggles --toggles 600` writes the records with simulated time into a
SQLite file, sweeps as the service does, and prints the bytes on the disk as JSON.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import tempfile
from pathlib import Path
from typing import Final

import orjson

from di_history.keeping import SWEEP_SECONDS
from di_history.records import JobSeen, Record, Revision
from di_history.store.engine import migrate, open_engine
from di_history.store.reader import Reader, Wanted
from di_history.store.retention import Retention, sweep
from di_history.store.writer import Writer

T0: Final = 1_767_268_800_000
HOUR: Final = 3_600_000
JOB_BYTES: Final = 40 << 20
_SPEC_BYTES: Final = 900_000
"""Of noise; 1.2 MB as text."""
_ENDED: Final = 20


def main() -> None:
    """Print the result of one hour."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toggles", type=int, default=600, help="within the hour")
    parser.add_argument("--mebibytes", type=int, default=100, help="bound of all that is kept")
    parser.add_argument("--distinct", action="store_true", help="each spec differs from all others")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(
            json.dumps(measure(Path(folder), given.toggles, given.mebibytes << 20, given.distinct))
        )


def measure(folder: Path, toggles: int, most: int, distinct: bool) -> dict[str, int]:
    """Toggle for an hour; returns bytes and counts."""
    engine = open_engine(f"sqlite:///{folder}/history.db")
    migrate(engine)
    writer = Writer(engine, job_log_bytes=1 << 20, job_bytes=JOB_BYTES)
    for number in range(_ENDED):
        writer.write(_records(f"b{number}", "b", 1, T0, _manifest(number, 100_000), completed=T0))
    swept_at = 0
    bodies = [_manifest(number, _SPEC_BYTES) for number in range(2)]
    for number in range(toggles):
        now = T0 + number * HOUR // toggles
        body = _manifest(number, _SPEC_BYTES) if distinct else bodies[number % 2]
        writer.write(_records("a", "a", number + 1, now, body))
        if now - swept_at >= SWEEP_SECONDS * 1000 or number == toggles - 1:
            swept_at = now
            swept = sweep(
                engine,
                Retention(age=1 << 60, size=most, job=JOB_BYTES),
                now=now,
                written=writer.take_unswept(),
                forget_elsewhere=lambda _namespace, _uid: None,
            )
    reader = Reader(engine)
    found = {
        "toggles": toggles,
        "bytes_on_disk": sum(each.stat().st_size for each in folder.iterdir()),
        "bytes_kept": swept.size,
        "revisions_kept": len(reader.revisions("a")),
        "jobs_of_the_other_tenant": len(reader.jobs(Wanted(namespace="b"))),
    }
    engine.dispose()
    return found


def _manifest(seed: int, size: int) -> bytes:
    noise = base64.b64encode(random.Random(seed).randbytes(size)).decode()
    return orjson.dumps({"spec": {"tasks": [{"name": noise}]}})


def _records(
    uid: str,
    namespace: str,
    number: int,
    at: int,
    body: bytes,
    *,
    completed: int | None = None,
) -> list[Record]:
    return [
        JobSeen(
            uid=uid,
            namespace=namespace,
            name=uid,
            owner="kubectl",
            created=T0,
            phase="Running" if completed is None else "Succeeded",
            completed=completed,
            seen=at,
            version=number,
            snapshot=body,
        ),
        Revision(job=uid, number=number, at=at, who="ann", manifest=body),
    ]


if __name__ == "__main__":
    main()
