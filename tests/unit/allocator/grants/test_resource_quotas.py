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
        for each in nodes:
            each["status"]["allocatable"]["cpu"] = "9"
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
        {"spec": {"hard": {"pods": "1"}, "scopes": 7}},
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


def scoped(hard: int, *requirements: Object, used: int = 0, name: str = "some") -> Object:
    """A quota for the pods that meet all requirements of a selector."""
    key = f"requests.{SLOT}"
    return quota(
        name,
        spec={"scopeSelector": {"matchExpressions": list(requirements)}},
        status={"hard": {key: str(hard)}, "used": {key: str(used)}},
    )


def requires(scope: str, operator: str = "Exists", *values: str) -> Object:
    return {"scopeName": scope, "operator": operator, **({"values": values} if values else {})}


def with_spec(**fields: Any) -> Object:
    found = task("learner", 4, minReplicas=4)
    found["template"]["spec"] |= fields
    return found


def requesting(**amounts: str) -> Object:
    found = task("learner", 4, minReplicas=4)
    (container,) = found["template"]["spec"]["containers"]
    container["resources"]["requests"] = amounts
    return found


AFFINE: Object = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "x", "namespaceSelector": {}}}
        ]
    }
}
KNOWN: dict[str, tuple[Object, Object, Object]] = {
    # What a quota requires, the pods of a task that it counts, and of one that it does not count.
    "terminating": (
        requires("Terminating"),
        with_spec(activeDeadlineSeconds=9),
        task("learner", 4),
    ),
    "not-terminating": (
        requires("NotTerminating"),
        task("learner", 4),
        with_spec(activeDeadlineSeconds=9),
    ),
    "not-best-effort": (requires("NotBestEffort"), requesting(cpu="1"), requesting(memory="0Gi")),
    "class-in": (
        requires("PriorityClass", "In", "high", "top"),
        with_spec(priorityClassName="top"),
        with_spec(priorityClassName="low"),
    ),
    "class-not-in": (
        requires("PriorityClass", "NotIn", "low"),
        with_spec(priorityClassName="top"),
        task("learner", 4),
    ),
    "a-class": (requires("PriorityClass"), with_spec(priorityClassName="top"), task("learner", 4)),
    "other-namespaces": (
        requires("CrossNamespacePodAffinity"),
        with_spec(affinity=AFFINE),
        task("learner", 4),
    ),
}


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/would-exceed-a-resourcequota-that-the")
@pytest.mark.parametrize("case", KNOWN)
def test_a_quota_with_scopes_bounds_the_jobs_whose_pods_it_counts(case: str) -> None:
    requirement, counted, other = KNOWN[case]
    bench = Bench(job("x", counted, phase="Pending"), job("y", other, phase="Pending"))
    bench.see(scoped(1, requirement))
    word = bench.look()
    assert (len(word.has), len(bench.look("y").has)) == (0, 4)
    assert word.grant.message == (
        f"the quota of namespace rl: it has 0 of its 1 {SLOT} (ResourceQuota some), "
        "and the job needs 4"
    )


def test_pods_in_two_quotas_are_held_by_the_tighter_one() -> None:
    bench = Bench(job("x", with_spec(priorityClassName="top"), phase="Pending"))
    top, mid = requires("PriorityClass", "In", "top"), requires("NotTerminating")
    bench.see(of(9), scoped(3, top), scoped(8, mid, name="wide"))
    assert "(ResourceQuota some)" in bench.look().grant.message
    bench.see(of(3), scoped(8, top), scoped(8, mid, name="wide"))
    assert "(ResourceQuota slots)" in bench.look().grant.message
    bench.see(of(4))
    assert len(bench.look().has) == 4


def test_a_quota_counts_a_pod_that_meets_all_of_its_requirements() -> None:
    both = (requires("NotTerminating"), requires("PriorityClass", "In", "top"))
    bench = Bench(job("x", task("learner", 4), phase="Pending"))
    bench.see(scoped(0, *both))
    assert len(bench.look().has) == 4


def test_placed_pods_are_not_counted_twice_by_a_quota_with_scopes() -> None:
    fields = {"priorityClassName": "top"}
    bench = Bench(job("x", with_spec(**fields)), job("y", with_spec(**fields), phase="Pending"))
    assert len(bench.look().has) == 4
    for number in range(4):
        body = pod("x", "learner", "a")
        body["metadata"] |= {"name": f"x-learner-{number}", "uid": f"p-{number}"}
        bench.reader.put_pod(body)
    bench.see(scoped(8, requires("PriorityClass", "In", "top"), used=4))
    assert (len(bench.look().has), len(bench.look("y").has)) == (4, 4)


def test_a_high_job_counts_in_the_quota_of_its_priority_class() -> None:
    reader = ClusterReader(read_spec, high_priority_class="high")
    for name, priority in (("x", "high"), ("y", "normal")):
        reader.put_job(job(name, task("learner", 4), phase="Pending", priority=priority))
    found = scoped(3, requires("PriorityClass", "In", "high"))
    reader.take(Changes(quotas={"uid-some": (True, found)}))
    jobs = reader.read(granted={}, now=NOW).jobs
    amounts = {key: [dict(task.scoped) for task in found.tasks] for key, found in jobs.items()}
    assert amounts == {"rl/x": [{f"{SLOT}@some": 1000}], "rl/y": [{}]}
