"""What the metrics of single jobs cost: python -m tools.benchmarks.job_metrics

Processor time of one scrape, the median of nine, on the event loop and in the thread beside it, and
its size; jobs are packed as in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any

from di_operator.informer_state import transform_job
from di_operator.job_metrics.collect import JobMetrics, Source
from di_operator.metrics import Metrics

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIZES = (0, 200, 1000, 10_000)


def job(number: int) -> Mapping[str, Any]:
    """A job of three tasks that reports, as the cache keeps it."""
    moment = "2026-01-01T00:00:00Z"
    condition = {"status": "True", "reason": "JobRunning", "lastTransitionTime": moment}
    return transform_job(
        {
            "metadata": {"namespace": "rl", "name": f"job-{number:05}", "uid": str(number)},
            "spec": {},
            "status": {
                "phase": "Running",
                "replicas": 10,
                "readyReplicas": 10,
                "restarts": 1,
                "reschedules": 2,
                "taskStatus": {
                    task: {"Running": 3, "Pending": 1}
                    for task in ("learner", "collector", "evaluator")
                },
                "profilings": {
                    "learnerWaitFrac": 0.1,
                    "envStepsPerSec": 1e4,
                    "trainStepsPerSec": 1e2,
                },
                "progress": {"step": 10, "totalSteps": 100, "reportedAt": moment},
                "expectedCompletion": dict.fromkeys(("earliest", "expected", "latest"), moment),
                "conditions": [{"type": kind, **condition} for kind in ("Running", "Starting")],
            },
        }
    )


def metrics(jobs: Sequence[Mapping[str, Any]], most: int) -> tuple[Metrics, float]:
    """What is scraped, and the seconds that following one change of a job took."""
    found = Metrics()
    followed: JobMetrics = found.of_jobs(Source(leads=lambda: True, now=lambda: NOW, most=most))
    began = time.process_time()
    for one in jobs:
        followed.follow("ADDED", one)
    return found, (time.process_time() - began) / len(jobs)


def main() -> None:
    """Measure and print."""
    jobs = [job(number) for number in range(max(SIZES))]
    for size in SIZES:
        found, change = metrics(jobs, size)
        on_loop, beside = [], []
        for _ in range(9):
            began = time.process_time()
            render = found.begin()
            middle = time.process_time()
            text = render()
            on_loop.append(middle - began)
            beside.append(time.process_time() - middle)
        print(
            f"{size:6} of {len(jobs)} jobs: {median(on_loop) * 1e3:6.2f} ms on the event loop, "
            f"{median(beside) * 1e3:7.1f} ms beside it, {len(text) / 1024:7.0f} KiB; "
            f"{change * 1e6:.0f} us at each change of a job"
        )


if __name__ == "__main__":
    main()
