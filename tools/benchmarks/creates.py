"""What admission adds to the creation of a job, for a real client.

Jobs of four tasks are created by turns in two namespaces of one control plane. The webhook is asked
about those of one of them. A burst is one `kubectl create` of many jobs, which sends one after the
other. No operator runs, so nothing else happens to the jobs.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, TypedDict

import yaml

from di_kube.config import load_config
from di_kube.resources import DIJOBS
from tests.integration.admitting import admitting, manifest
from tests.integration.webhook_process import webhook_process
from tools.benchmarks import samples
from tools.benchmarks.samples import Spread
from tools.benchmarks.testbed import Testbed

TASKS = ("learner", "collector", "evaluator", "none")
ROUNDS = 3


class CreatesResult(TypedDict):
    """Times of a create in milliseconds, one client after the other."""

    creates: int
    with_webhook_ms: Spread
    without_ms: Spread
    burst: int
    """Jobs of a burst."""
    burst_with_webhook_ms: list[float]
    """Milliseconds a job, of each round."""
    burst_without_ms: list[float]


async def measure(testbed: Testbed, *, creates: int, burst: int) -> CreatesResult:
    """Create so many jobs one by one on each side, and then bursts of others."""
    judged, other = await testbed.namespace(), await testbed.namespace()
    config = load_config(str(testbed.kubeconfig))
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        with webhook_process(folder, testbed.host_address) as webhook:
            admission = admitting(webhook, config, judged)
            await asyncio.to_thread(admission.__enter__)
            alone = await _one_by_one(testbed, judged, other, creates)
            bursts = {judged: list[float](), other: list[float]()}
            for number in range(ROUNDS):
                for namespace in (judged, other) if number % 2 else (other, judged):
                    file = folder / f"{namespace}-{number}.yaml"
                    jobs = [_job(f"burst-{number}-{each}") for each in range(burst)]
                    file.write_text(yaml.safe_dump_all(jobs))
                    took = await asyncio.to_thread(_create, testbed, namespace, file)
                    bursts[namespace].append(round(1000 * took / burst, 2))
            await asyncio.to_thread(admission.__exit__, None, None, None)
    return {
        "creates": creates,
        "with_webhook_ms": samples.spread(alone[judged]),
        "without_ms": samples.spread(alone[other]),
        "burst": burst,
        "burst_with_webhook_ms": bursts[judged],
        "burst_without_ms": bursts[other],
    }


async def _one_by_one(
    testbed: Testbed, judged: str, other: str, creates: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {judged: [], other: []}
    for number in range(creates):
        for namespace in (judged, other) if number % 2 else (other, judged):
            began = time.perf_counter()
            await testbed.client.create(DIJOBS, _job(f"job-{number}"), namespace)
            times[namespace].append(time.perf_counter() - began)
    return times


def _job(name: str) -> dict[str, Any]:
    (task,) = manifest()["spec"]["tasks"]
    tasks = [{**task, "name": f"task-{kind}", "type": kind} for kind in TASKS]
    return manifest(name, tasks=tasks)


def _create(testbed: Testbed, namespace: str, file: Path) -> float:
    """Return how many seconds kubectl took."""
    began = time.perf_counter()
    subprocess.run(
        [
            *(testbed.kubectl, f"--kubeconfig={testbed.kubeconfig}", f"--namespace={namespace}"),
            *("create", f"--filename={file}", "--output=name"),
        ],
        check=True,
        capture_output=True,
        timeout=600,
    )
    return time.perf_counter() - began
