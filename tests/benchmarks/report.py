"""Words and tables for what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from tests.benchmarks import samples, throughput
from tests.benchmarks.field import OPERATOR
from tests.benchmarks.throughput import Run


def quick_line(runs: Sequence[Run]) -> str:
    """The one line of a quick run: medians, the share within rounds."""
    ours = [run for run in runs if run.contestant == OPERATOR]
    share = samples.median(throughput.share(runs), 3)
    return (
        f"{samples.median([run.jobs_per_second for run in ours], 1)} jobs/s, "
        f"{share:.0%} of the ceiling, "
        f"{samples.median([run.writes_per_job for run in ours], 1)} writes a job, "
        f"{samples.median([run.cpu_ms_per_job['contestant'] for run in ours], 1)} CPU ms a job"
    )
