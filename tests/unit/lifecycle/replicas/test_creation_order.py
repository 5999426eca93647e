"""In which order the pods of a job are created, when a quota allows some of them only."""

from __future__ import annotations

import pytest

from di_kube.errors import ApiError, Forbidden
from di_operator.lifecycle.write_errors import QuotaExceeded
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.operator.executing import Bench

REPLAY = {**task("replay"), "type": "none"}
TASKS = (task("collector", 12), task("evaluator"), REPLAY, task("learner", 4))


def created_under_a_quota(cluster: ClusterModel, pods: int) -> list[str]:
    """The pods that exist once the API server has refused the first beyond so many."""
    bench = Bench()

    def count(verb: str, kind: str, name: str) -> ApiError | None:
        made = sum(each == "Pod" for each, _, _ in bench.api.objects)
        is_over = (verb, kind) == ("create", "Pod") and made >= pods
        return Forbidden(kind=kind, name=name, message="exceeded quota: q") if is_over else None

    bench.api.before = count
    faults = bench.run(*cluster.decide().actions)
    assert all(isinstance(fault, QuotaExceeded) for fault in faults)
    return sorted(name for kind, _, name in bench.api.objects if kind == "Pod")


@pytest.mark.proves("lifecycle.md#order-of-creation/first")
@pytest.mark.parametrize("pods", [2, 4])
def test_a_quota_leaves_learners_before_all_others(pods: int) -> None:
    created = created_under_a_quota(ClusterModel(job(*TASKS)), pods)
    assert len(created) == pods
    assert all(name.startswith("x-learner-") for name in created)


@pytest.mark.proves("lifecycle.md#order-of-creation/*")
def test_collectors_are_created_last() -> None:
    created = created_under_a_quota(ClusterModel(job(*TASKS)), 6)
    learners = [f"x-learner-{index}" for index in range(4)]
    assert created == sorted([*learners, "x-evaluator-0", "x-replay-0"])


def test_ranks_follow_the_spec_and_not_the_order_of_creation() -> None:
    cluster = ClusterModel(job(*TASKS)).settle()
    assert cluster.env("x-collector-0")["DI_RANK"] == "0"
    assert cluster.env("x-learner-3")["DI_RANK"] == "17"


def test_a_learner_that_was_lost_is_made_before_lost_collectors() -> None:
    cluster = ClusterModel(job(*TASKS)).settle().run().settle()
    for name in ("x-collector-0", "x-collector-1", "x-learner-0"):
        cluster.delete_pod(name, force=True)
    cluster.settle()
    made = [write for write in cluster.writes if write.startswith("create Pod")][-3:]
    assert made == [
        "create Pod x-learner-0",
        "create Pod x-collector-0",
        "create Pod x-collector-1",
    ]
