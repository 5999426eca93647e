"""The allocator as the scheduler of a sweep's trials."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.sweeps import load_sweep, trial_job
from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.objects import job, snapshot, task

Object = dict[str, Any]
TRIALS = 8
SWEEP: Object = {
    "kind": "DISweep",
    "metadata": {"name": "tune", "namespace": "rl"},
    "spec": {
        "objective": {"metric": "episodeReturn"},
        "maxTrials": TRIALS,
        "parallelism": TRIALS,
        "parameters": [{"name": "lr", "environment": "LR", "uniform": {"min": 0, "max": 1}}],
        "template": {
            "spec": {"preemptible": True, "tasks": [task("learner", 4, minReplicas=1)]},
        },
    },
}


def trials() -> list[Object]:
    """The jobs of all trials, as the API server has them."""
    spec = load_sweep(SWEEP)
    made = [trial_job(SWEEP, spec, index) for index in range(TRIALS)]
    return [
        {
            **job(each["metadata"]["name"], phase="Pending", metadata=each["metadata"]),
            "spec": each["spec"],
        }
        for each in made
    ]


def allocated(jobs: list[Object]) -> list[int]:
    """Reconsider all jobs on the two nodes of four slots; the number of learners of each."""
    found = snapshot(*jobs)
    answer = GoodputPolicy().optimize(found.jobs, found.nodes, found.held)
    plan = make_plan(answer, found.jobs, found.nodes, found.held)
    assert not plan.refused
    counts = []
    for each in jobs:
        placed = plan.allocations.get(f"rl/{each['metadata']['name']}")
        learners = placed.task("learner") if placed else ()
        each["status"] = {"phase": "Running", "placement": {"learner": [*learners]}}
        counts.append(len(learners))
    return counts


def stop(one: Object) -> None:
    """What the sweep writes to a trial that is behind."""
    one["spec"] = {**one["spec"], "suspend": True}


@pytest.mark.proves("sweeps.md#in-a-cluster")
def test_preemptible_trials_grow_as_others_stop() -> None:
    jobs = trials()
    assert allocated(jobs) == [1] * TRIALS
    for one in jobs[:4]:
        stop(one)
    assert allocated(jobs) == [0] * 4 + [2] * 4
    for one in jobs[4:6]:
        stop(one)
    assert allocated(jobs) == [0] * 6 + [4] * 2
    # As many as the template requests, whatever is free.
    stop(jobs[6])
    assert allocated(jobs) == [0] * 7 + [4]
