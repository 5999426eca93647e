"""What the metrics of single jobs cost: python -m tools.benchmarks.job_metrics

Processor time of one rendering, the median of nine, and its size; jobs are packed as in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from di_operator.informer_state import transform_job
from di_operator.job_metrics import JobMetrics, Source

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


def registry(jobs: Iterable[Mapping[str, Any]], most: int) -> CollectorRegistry:
    """What is scraped."""
    kept, found = tuple(jobs), CollectorRegistry()
    source = Source(leads=lambda: True, unfinished=lambda: kept, now=lambda: NOW, most=most)
    found.register(JobMetrics(source))
    return found


def main() -> None:
    """Measure and print."""
    jobs = [job(number) for number in range(max(SIZES))]
    for size in SIZES:
        found = registry(jobs, size)
        times = []
        for _ in range(9):
            began = time.process_time()
            text = generate_latest(found)
            times.append(time.process_time() - began)
        print(f"{size:6} jobs shown: {median(times) * 1e3:7.1f} ms, {len(text) / 1024:7.0f} KiB")


if __name__ == "__main__":
    main()
