"""Workloads: which job is submitted when."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from di_simulator.application import Application
from di_simulator.job import SimulatedJob

# The one application whose learning rate the artifact's agents do not scale: its batch is fixed
# and it stays on one replica, whatever the policy.
UNSCALED: Mapping[str, int] = {"ncf": 32768}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One line of a workload: seconds from its start, and what the owner asked for."""

    name: str
    time: float
    application: str
    replicas: int
    batch: int


def read_workload(path: Path) -> list[Submission]:
    """Read a workload. Raises OSError, KeyError or ValueError."""
    with path.open(newline="") as lines:
        return [
            Submission(
                name=row["name"],
                time=float(row["time"]),
                application=row["application"],
                replicas=int(row["num_replicas"]),
                batch=int(row["batch_size"]),
            )
            for row in csv.DictReader(lines)
        ]


def of_tenants(submissions: Sequence[Submission], tenants: Sequence[str]) -> list[Submission]:
    """Put the tenants' names before those of the jobs: the first job is the first tenant's, and so
    on, again and again from the front. A tenant that is named twice submits twice as much."""
    if not tenants:
        return list(submissions)
    return [
        replace(submission, name=f"{tenants[number % len(tenants)]}/{submission.name}")
        for number, submission in enumerate(submissions)
    ]


def tenant_of(job: str) -> str:
    """The tenant in the name of a job; empty: there is none."""
    return job.rpartition("/")[0]


def make_jobs(
    submissions: Sequence[Submission],
    applications: Mapping[str, Application],
    *,
    adaptive: bool,
    knows_kinds: bool = True,
    pools: Sequence[str] = (),
) -> list[SimulatedJob]:
    """Return the jobs; those that are `adaptive` choose their batch sizes themselves, and
    those that know kinds of nodes measure themselves on each. The first job selects the first of
    the `pools`, and so on, again and again from the front; "" is any node.
    """
    return [
        SimulatedJob(
            name=submission.name,
            application=applications[submission.application],
            submitted=submission.time,
            replicas=submission.replicas,
            knows_kinds=knows_kinds,
            pool=pools[number % len(pools)] if pools else "",
            batch=UNSCALED.get(submission.application) if adaptive else submission.batch,
        )
        for number, submission in enumerate(submissions)
    ]
