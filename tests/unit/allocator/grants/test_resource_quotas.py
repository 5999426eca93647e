"""ResourceQuotas: what they leave bounds grants, and what cannot be read bounds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.grants.granting import NOTHING_SAID, Word, granted, step
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes, Found, News
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.sharing.queues import NO_QUEUES, queues_of
from di_operator.allocator.withdrawals.resource_quotas import read_bounds
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import GANG, NOW, SLOT, job, node, pod, task

Object = dict[str, Any]


def quota(name: str = "slots", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": "rl", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, **fields}


def of(hard: int, used: int = 0, name: str = "slots") -> Object:
    key = f"requests.{SLOT}"
    return quota(name, status={"hard": {key: str(hard)}, "used": {key: str(used)}})


class Bench:
    """Jobs on two nodes of four slots, in a namespace with quotas."""

    def __init__(self, *jobs: Object, policy: Policy | None = None) -> None:
        self.policy = policy or FitPolicy()
        self.reader = ClusterReader(read_spec, queues=queues_of(self.policy))
        self.words = NOTHING_SAID
        nodes = [node("a", 4), node("b", 4)]
        self.reader.take(Changes.all(jobs=jobs, departed=[], nodes=nodes, pods=[], others=[]))

    def see(self, *quotas: Object, is_there: bool = True) -> None:
        found: Found = {each["metadata"]["uid"]: (is_there, each) for each in quotas}
        self.reader.take(Changes(quotas=found))

    def look(self, name: str = "x") -> Word:
        found = self.reader.read(granted=granted(self.words), now=NOW)
        answer = self.policy.optimize(found.jobs, found.nodes, found.held)
        self.words = step(self.words, found, answer, whole=True, explain=True).words
        return self.words[f"uid-{name}"]


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/would-exceed-a-resourcequota-that-the")
@pytest.mark.parametrize("kind", [{}, GANG], ids=["preemptible", "gang"])
@pytest.mark.parametrize("policy", [FitPolicy, BinpackPolicy, GoodputPolicy])
def test_a_job_beyond_a_quota_evicts_no_other_and_starts_when_it_is_raised(
    policy: type[Policy], kind: Object
) -> None:
    other = job("v", task("learner", 8, minReplicas=8), metadata={"namespace": "elsewhere"})
    bench = Bench(other, policy=policy())
    assert len(bench.look("v").has) == 8
    learner = task("learner", 4, minReplicas=4)
    bench.see(of(0))
    bench.reader.put_job(job("x", learner, phase="Pending", priority="high", **kind))
    word = bench.look()
    assert (len(bench.look("v").has), len(word.has)) == (8, 0)
    assert word.grant.reason == "QueueQuotaExceeded"
    assert word.grant.message == (
        f"the quota of namespace rl: it has 0 of its 0 {SLOT} (ResourceQuota slots), "
        "and the job needs 4"
    )
    bench.reader.remove_job(other)
    assert len(bench.look().has) == 0
    bench.see(of(4))
    assert len(bench.look().has) == 4


def test_a_job_is_granted_what_the_quota_leaves() -> None:
    bench = Bench(job("x", task("learner", 2, maxReplicas=8), phase="Pending"))
    bench.see(of(6, used=3))
    bench.policy = GoodputPolicy()
    assert len(bench.look().has) <= 3


def test_pods_that_the_allocator_placed_are_not_counted_twice() -> None:
    bench = Bench(job("x", task("learner", 2)), job("y", task("learner", 2), phase="Pending"))
    assert len(bench.look().has) == 2
    pods = [pod("x", "learner", "a") for _ in range(2)]
    for number, body in enumerate(pods):
        body["metadata"] |= {"name": f"x-learner-{number}", "uid": f"p-{number}"}
        bench.reader.put_pod(body)
    bench.see(of(4, used=2))
    assert (len(bench.look().has), len(bench.look("y").has)) == (2, 2)


def test_running_jobs_stay_when_a_quota_is_lowered_below_them() -> None:
    bench = Bench(job("x", task("learner", 4)))
    assert len(bench.look().has) == 4
    bench.see(of(1, used=4))
    assert len(bench.look().has) == 4


def test_the_tightest_of_several_quotas_counts() -> None:
    bench = Bench(job("x", task("learner", 4, minReplicas=4), phase="Pending"))
    bench.see(of(9), of(3, name="tight"), of(5, name="wide"))
    assert "of its 3 example.org/slot (ResourceQuota tight)" in bench.look().grant.message
    bench.see(of(3, name="tight"), is_there=False)
    assert len(bench.look().has) == 4


def test_a_queue_and_a_quota_bound_a_namespace_together() -> None:
    policy = FitPolicy(queues={"rl": {"quota": {SLOT: 5}}})
    bench = Bench(job("x", task("learner", 6, minReplicas=6), phase="Pending"), policy=policy)
    bench.see(of(7))
    assert bench.look().grant.message == (
        f"the quota of namespace rl: it has 0 of its 5 {SLOT}, and the job needs 6"
    )
    bench.see(of(4))
    assert f"of its 4 {SLOT} (ResourceQuota slots)" in bench.look().grant.message


@pytest.mark.parametrize(
    ("hard", "resources"),
    [
        ({"requests.cpu": "1", "cpu": "2", "limits.cpu": "3"}, ["cpu", "cpu"]),
        (
            {"pods": "1", "count/pods": "2", "count/dijobs.diengine.opendilab.org": "3"},
            ["pods"] * 2,
        ),
        ({"requests.storage": "1Gi", "services": "1"}, ["storage"]),
        ({"memory": "many", "requests.memory": None}, []),
    ],
)
def test_requests_and_numbers_of_pods_are_read(hard: Object, resources: list[str]) -> None:
    found = read_bounds(quota(status={"hard": hard, "used": {}}))
    assert [each.resource for each in found] == resources


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}},
        {"spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": []} | {"x": 1}}},
        {"spec": "nonsense", "status": []},
        {},
    ],
)
def test_a_quota_that_cannot_be_told_bounds_nothing(fields: Object) -> None:
    assert [*read_bounds(quota(**fields))] == []


def test_only_a_quota_that_leaves_more_wants_a_look() -> None:
    news = News(monotonic=lambda: 0.0)
    news.on_job("ADDED", job("x", task("learner")))
    news.everything = False
    looks = [
        news.on_quota("ADDED", of(8)),
        news.on_quota("MODIFIED", of(8, used=4)),
        news.on_quota("MODIFIED", of(8, used=4)),
        news.on_quota("MODIFIED", of(4, used=4)),
    ]
    assert (looks, news.everything) == ([False] * 4, False)
    assert news.on_quota("MODIFIED", of(4, used=2))
    assert news.everything
    assert news.on_quota("DELETED", of(4, used=2))


def test_quotas_without_queues_are_in_no_metric_of_queues() -> None:
    bench = Bench(job("x", task("learner")))
    bench.see(of(4))
    assert bench.reader.read(granted={}, now=NOW).besides == {}
    assert not NO_QUEUES
