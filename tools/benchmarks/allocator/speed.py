"""What one decision of a policy costs, and how good it is.

    python -m tools.benchmarks.allocator.speed [--policy goodput] [--rounds 10] [--output FILE]
    python -m tools.benchmarks.allocator.speed --whole 10000 10000

For four sizes of cluster, with 4 GPUs a node: the processor time of a decision from nothing, of
one after a tenth of the jobs was replaced, and of one where nothing changed; how much the process
grows; GPUs used, jobs left waiting, the sum of speed-ups over one GPU each, and how far the sizes
chosen are from a solver's bound. Jobs are drawn from the recorded applications, at all stages of
their training, with a fixed seed.

Beside it, the whole way of a round from the cluster's objects to what jobs are told, see
`allocation_rounds`: each measurement in a process of its own. `--whole` measures only that, for one
number of jobs and of nodes.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from di_operator.allocator.goodput.fit import Observation, fit
from di_operator.allocator.goodput.model import goodput
from di_operator.allocator.goodput.params import GoodputModel, GradParams
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.model.resources import UNIT
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.policies.registry import load_policy
from di_operator.allocator.sizing.choose import Offer, choose
from di_simulator.application import Application, load_applications
from di_simulator.hardware import GPU, Group, make_nodes
from di_simulator.main import RECORDED
from tests.solver import best_worth, worth

SIZES = ((40, 16), (100, 64), (500, 250), (1000, 1000))
GPUS = 4
LARGEST = 64
CHURN = 0.1
# Processes for the whole way: without and with a watch over the event loop.
WHOLE = 2
WATCHED = 1
# Where an application has been measured before the benchmark begins.
EXPLORED = ((1,), (2,), (4,), (4, 4), (4, 4, 4, 4))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all sizes and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="goodput")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--whole", type=int, nargs=2, metavar=("JOBS", "NODES"))
    parser.add_argument("--output", type=Path, help="also write the result here")
    options = parser.parse_args(arguments)
    applications = load_applications(RECORDED / "traces")
    reports = [report for app in sorted(applications) for report in _reports(applications[app])]
    result: list[dict[str, Any]]
    if options.whole:
        jobs, nodes = options.whole
        result = [{"jobs": jobs, "nodes": nodes, "whole": measure_whole(jobs, nodes, reports)}]
    else:
        result = [
            measure(options.policy, applications, jobs, nodes, rounds=options.rounds)
            | {"whole": measure_whole(jobs, nodes, reports)}
            for jobs, nodes in SIZES
        ]
    text = json.dumps(result, indent=2)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")


def measure(
    name: str, applications: Mapping[str, Application], count: int, nodes: int, *, rounds: int
) -> dict[str, Any]:
    """Return the figures of one size; times in seconds of the processor, the least of all rounds.

    The least, because whatever else the machine does can only add to it.
    """
    rng = random.Random(count)
    perf = {app: _model_of(applications[app]) for app in applications}
    room = make_nodes([Group(nodes=nodes, gpus=GPUS)])
    before = _resident()
    cold: list[float] = []
    churned: list[float] = []
    same: list[float] = []
    for number in range(rounds):
        jobs = {f"{number}-{n}": draw_job(f"{number}-{n}", perf, rng) for n in range(count)}
        policy = load_policy(name, {})
        first = _timed(cold, policy, jobs, room, {})
        gone = rng.sample(sorted(jobs), int(count * CHURN))
        changed = {key: job for key, job in jobs.items() if key not in gone}
        changed |= {f"new-{key}": draw_job(f"new-{key}", perf, rng) for key in gone}
        held = {key: placed for key, placed in first.items() if key in changed}
        second = _timed(churned, policy, changed, room, held)
        _timed(same, policy, changed, room, second)
    return {
        "jobs": count,
        "nodes": nodes,
        "cold": min(cold),
        "churn": min(churned),
        "unchanged": min(same),
        "grown_mib": _resident() - before,
        "gpus": nodes * GPUS,
        "gpus_used": sum(map(len, first.values())),
        "waiting": sum(not placed for placed in first.values()),
        "milp_gap": milp_gap(jobs, room),
        "speedups": sum(speedup(jobs[key], placed) for key, placed in first.items()),
    }


def measure_whole(jobs: int, nodes: int, reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The least of several processes, but of holds and memory the most of all."""
    command = [sys.executable, "-m", "tools.benchmarks.allocator.rounds", str(jobs), str(nodes)]
    results = [
        json.loads(
            subprocess.run(
                [*command, *(["--holds"] if watched else [])],
                input=json.dumps(reports),
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()[-1]
        )
        for watched in (*[False] * WHOLE, *[True] * WATCHED)
    ]
    return {
        key: (max if key.endswith(("_mib", "held", "held_passed")) else min)(
            result[key] for result in results
        )
        for key in results[0]
    }


def milp_gap(jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo]) -> float:
    """How much the chosen sizes are worth less than a solver's bound, as a share of the bound."""
    asked: list[tuple[Sequence[Offer], float, list[int]]] = []

    def recorded(offers: Sequence[Offer], budget: float) -> list[int]:
        asked.append((offers, budget, choose(offers, budget)))
        return asked[-1][2]

    with patch("di_operator.allocator.policies.goodput.choose", recorded):
        GoodputPolicy().optimize(jobs, nodes, {})
    ((offers, budget, chosen),) = asked
    bound = best_worth(offers, budget)
    return max(0.0, bound - worth(offers, chosen)) / abs(bound)


def draw_job(key: str, models: Mapping[str, Sequence[GoodputModel]], rng: random.Random) -> JobInfo:
    """A job of some application at some stage of its training."""
    found = rng.choice(models[rng.choice(sorted(models))])
    # No two jobs measure exactly the same.
    perf = replace(found.perf, beta_c=found.perf.beta_c * rng.uniform(0.95, 1.05))
    maximum = min(LARGEST, found.limits.maximum // found.limits.local_min)
    return JobInfo(
        key=key,
        tasks=(
            TaskInfo(name="learner", replicas=1, minimum=1, maximum=maximum, resources={GPU: UNIT}),
        ),
        preemptible=True,
        age=rng.uniform(0, 36000),
        model=replace(found, perf=perf),
        explored=16,
    )


def speedup(job: JobInfo, placed: NodeList) -> float:
    """How much faster a job is where it was placed than on one GPU."""
    if not placed or job.model is None:
        return 0.0
    there = goodput(job.model, len(set(placed)), len(placed))
    return there / goodput(job.model, 1, 1)


def _model_of(application: Application) -> list[GoodputModel]:
    limits, perf = application.limits, fit(_seen(application))
    return [GoodputModel(perf=perf, grad=grad, limits=limits) for grad in _gradients(application)]


def _seen(application: Application) -> list[Observation]:
    limits = application.limits
    seen = []
    for placement in EXPLORED:
        samples = max(limits.local_min, min(limits.local_max, limits.initial // sum(placement)))
        step, sync = application.step(placement, samples)
        seen.append(
            Observation(
                nodes=len(placement),
                replicas=sum(placement),
                samples=samples,
                computing=step - sync,
                iteration=step,
            )
        )
    return seen


def _gradients(application: Application) -> list[GradParams]:
    found = (
        application.gradient(application.limits.initial, stage * (application.epochs - 1) // 4)
        for stage in range(4)
    )
    return [GradParams(sqr=sqr, var=var) for sqr, var in found]


def _reports(application: Application) -> list[dict[str, Any]]:
    """What a job of the application reports at each stage of its training."""
    limits = application.limits
    return [
        {
            "observations": [asdict(seen) for seen in _seen(application)],
            "gradParams": asdict(grad),
            "initBatchSize": limits.initial,
            "maxBatchSize": limits.maximum,
            "localBatchMin": limits.local_min,
            "localBatchMax": limits.local_max,
        }
        for grad in _gradients(application)
    ]


def _timed(
    times: list[float],
    policy: Policy,
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, Any],
    held: Mapping[str, NodeList],
) -> dict[str, NodeList]:
    started = time.process_time()
    answer = policy.optimize(jobs, nodes, held)
    times.append(time.process_time() - started)
    return answer


def _resident() -> float:
    """The memory of this process that is resident, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
