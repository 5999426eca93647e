"""Nodes and jobs for tests of the allocator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from di_api.spec import TaskType
from di_operator.allocator.goodput.params import BatchLimits, GoodputModel, GradParams, PerfParams
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import UNIT

GPU = "nvidia.com/gpu"
SLOT = "slot"


def amounts(**resources: float) -> dict[str, int]:
    """Resources in base units; `gpu` stands for the long name."""
    return {
        GPU if name == "gpu" else name: round(value * UNIT) for name, value in resources.items()
    }


def node(name: str, *, labels: Mapping[str, str] | None = None, **resources: float) -> NodeInfo:
    room = amounts(**resources)
    return NodeInfo(name=name, total=room, free=room, labels=labels or {})


def nodes(count: int, **resources: float) -> dict[str, NodeInfo]:
    names = [f"n{number:03d}" for number in range(count)]
    return {name: node(name, labels=None, **resources) for name in names}


def task(
    replicas: int,
    *,
    name: str = "learner",
    minimum: int | None = None,
    maximum: int | None = None,
    unit: int = 1,
    elastic: bool = False,
    **resources: float,
) -> TaskInfo:
    return TaskInfo(
        unit=unit,
        elastic=elastic,
        name=name,
        type=TaskType(name) if name in set(TaskType) else TaskType.NONE,
        replicas=replicas,
        minimum=replicas if minimum is None else minimum,
        maximum=replicas if maximum is None else maximum,
        resources=amounts(**(resources or {"slot": 1})),
    )


def job(key: str, *tasks: TaskInfo, **options: Any) -> JobInfo:
    return JobInfo(key=key, tasks=tasks, **{"preemptible": True, "age": 0.0} | options)


def model(
    *, alpha_n: float = 0.1, beta_n: float = 0.001, noise: float = 10.0, step: float = 0.05
) -> GoodputModel:
    """A job that gains from more replicas, the more the noisier its gradient is."""
    return GoodputModel(
        perf=PerfParams(
            alpha_c=step,
            beta_c=0.001,
            alpha_n=alpha_n,
            beta_n=beta_n,
            alpha_r=0.01,
            beta_r=0.001,
            gamma=1.5,
        ),
        grad=GradParams(sqr=1.0, var=noise),
        limits=BatchLimits(initial=128, maximum=8192, local_min=16, local_max=512),
    )


def elastic(key: str, *, maximum: int = 64, minimum: int = 1, **options: Any) -> JobInfo:
    """A job whose learners are one GPU each and that has measured all sizes."""
    defaults: dict[str, Any] = {"model": model(), "explored": 64}
    learner = task(minimum, minimum=minimum, maximum=maximum, gpu=1)
    return job(key, learner, **defaults | options)


def by_key(*jobs: JobInfo) -> dict[str, JobInfo]:
    return {each.key: each for each in jobs}


def counts(answer: Mapping[str, NodeList]) -> dict[str, int]:
    return {key: len(placed) for key, placed in answer.items()}


def per_node(placed: NodeList) -> dict[str, int]:
    return dict(Counter(placed))


def used(jobs: Mapping[str, JobInfo], answer: Mapping[str, NodeList]) -> dict[str, Counter[str]]:
    """What an answer takes from each node, in thousandths."""
    taken: dict[str, Counter[str]] = {}
    for key, placed in answer.items():
        for wanted in jobs[key].tasks:
            for name in placed.task(wanted.name):
                taken.setdefault(name, Counter()).update(wanted.resources)
    return taken
