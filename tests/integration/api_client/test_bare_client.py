"""The benchmarks' bare client against a real API server: a ceiling is one only if it does the
same work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tools.benchmarks import throughput
from tools.benchmarks.testbed import CEILING, OPERATOR, control_plane
from tools.benchmarks.throughput import Run
from tools.benchmarks.workloads import Workload

pytestmark = pytest.mark.extended


def test_the_bare_client_makes_the_operators_writes(tmp_path: Path) -> None:
    # Above 100 pods there is a ConfigMap, too; one pod's run is long enough to be seen Running.
    workloads = [Workload(jobs=3, replicas=4), Workload(jobs=1, replicas=110)]

    async def main() -> list[Run]:
        async with control_plane(tmp_path / "logs", quiet=True) as testbed, testbed.kubelet():
            return [
                run
                for workload in workloads
                for run in await throughput.compare(testbed, workload, order=(OPERATOR, CEILING))
            ]

    runs = asyncio.run(main())
    for ours, theirs in (runs[:2], runs[2:]):
        assert ours.running_seen == theirs.running_seen == ours.jobs
        # Progress is written every ten seconds and events have a budget: neither is due to the
        # job alone.
        assert _objects(ours) == _objects(theirs)
        assert theirs.writes["PATCH dijobs/status"] == 3
        assert ours.writes["PATCH dijobs/status"] >= 3
    assert _objects(runs[0]) == {"POST services": 1, "POST pods": 4, "DELETE services": 1}
    assert _objects(runs[2])["POST configmaps"] == _objects(runs[2])["DELETE configmaps"] == 1


def _objects(run: Run) -> dict[str, float]:
    return {
        request: count
        for request, count in run.writes.items()
        if not request.endswith((" events", " dijobs/status"))
    }
