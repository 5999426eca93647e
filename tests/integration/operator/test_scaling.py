"""Changing the number of replicas while a job runs."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import NODES, PODS
from di_api.names import LABEL_IN_SERVICE
from di_operator.builders.pinning import pin
from tests.fakes.kubelet import FakeKubelet
from tests.integration.operator_testbed import (
    Object,
    Testbed,
    condition,
    job,
    on_testbed,
    task,
)

pytestmark = pytest.mark.usefixtures("crd")


def tasks(collectors: int) -> list[Object]:
    return [task("learn"), task("collect", collectors), task("judge")]


def test_scaling_out_and_in_keeps_the_ranks_of_those_that_stay(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async def runs_with(replicas: int) -> bool:
            status = await testbed.status("a")
            seen = status["phase"], status["replicas"], status["readyReplicas"]
            return seen == ("Running", replicas, replicas)

        async with testbed.operator():
            await testbed.submit(job("a", *tasks(2)))
            await testbed.phase("a", "Running")
            first = await testbed.ranks("a")
            uids = {name: pod["metadata"]["uid"] for name, pod in (await testbed.pods("a")).items()}

            await testbed.patch("a", {"tasks": tasks(4)})
            await testbed.until(lambda: runs_with(6), "six ready replicas")
            assert await testbed.ranks("a") == {**first, "a-collect-2": 4, "a-collect-3": 5}

            await testbed.patch("a", {"tasks": tasks(1)})
            await testbed.until(lambda: runs_with(3), "three ready replicas")
            kept = {name: rank for name, rank in first.items() if name != "a-collect-1"}
            assert await testbed.ranks("a") == kept

            await testbed.patch("a", {"tasks": tasks(2)})
            await testbed.until(lambda: runs_with(4), "four ready replicas")
            assert await testbed.ranks("a") == first

            pods = await testbed.pods("a")
            assert all(pods[name]["metadata"]["uid"] == uids[name] for name in kept)
            status = await testbed.status("a")
            assert status["restarts"] == 0
            assert status["reschedules"] == 3
            assert "Rescheduling" in testbed.phases["a"]

    on_testbed(kube_config, namespace, body)


def test_a_replica_of_two_pods_comes_and_goes_as_one(
    kube_config: KubeConfig, namespace: str
) -> None:
    patch = {"spec": {"containers": [{"name": "di-container", "args": ["--serve"]}]}}

    def rollout(replicas: int) -> Object:
        return {
            **task("rollout", replicas, stop_after="0.1"),
            "podsPerReplica": 2,
            "leaderTemplatePatch": patch,
            "service": {"ports": [{"name": "http", "port": 80}], "select": "Leaders"},
        }

    async def body(testbed: Testbed) -> None:
        async def uids() -> dict[str, str]:
            pods = await testbed.pods("a")
            return {name: pod["metadata"]["uid"] for name, pod in pods.items()}

        async def runs_with(pods: int, reschedules: int) -> bool:
            status = await testbed.status("a")
            counts = status["phase"], status["readyReplicas"], status["reschedules"]
            return counts == ("Running", pods, reschedules)

        async def is_alone() -> bool:
            return set(await uids()) == {"a-rollout-0-0", "a-rollout-0-1"}

        async def serve(*names: str) -> bool:
            pods = await testbed.pods("a")
            return {n for n in pods if LABEL_IN_SERVICE in pods[n]["metadata"]["labels"]} == {
                *names
            }

        async with testbed.operator():
            await testbed.submit(job("a", rollout(2)))
            await testbed.phase("a", "Running")
            leaders = ("a-rollout-0-0", "a-rollout-1-0")
            await testbed.until(lambda: serve(*leaders), "the leaders to be behind the Service")
            first = await uids()
            assert sorted(first) == [
                f"a-rollout-{replica}-{pod}" for replica in "01" for pod in "01"
            ]
            for name, pod in (await testbed.pods("a")).items():
                (container,) = pod["spec"]["containers"]
                assert container.get("args") == (["--serve"] if name.endswith("-0") else None)

            await testbed.client.delete(PODS, "a-rollout-0-1", namespace)
            await testbed.until(lambda: runs_with(4, 1), "the replica to be made anew")
            await testbed.until(lambda: serve(*leaders), "its leader to be behind the Service")
            second = await uids()
            changed = {name for name in first if first[name] != second[name]}
            assert changed == {"a-rollout-0-0", "a-rollout-0-1"}
            assert (await testbed.status("a"))["replicaAttempts"] == {"rollout": {"0": 1}}

            await testbed.patch("a", {"tasks": [rollout(1)]})
            await testbed.until(lambda: runs_with(2, 2), "one replica")
            await testbed.until(is_alone, "the pods of the other to be gone")

    on_testbed(kube_config, namespace, body)


def test_an_elastic_tier_goes_with_its_node_and_comes_back(
    kube_config: KubeConfig, namespace: str
) -> None:
    node, key = f"{namespace}-spot", "fake/spot"
    tolerations = [{"key": key, "operator": "Exists"}]
    # Pinned, so that nobody but the scheduler brings them there.
    patch = {"spec": {"tolerations": tolerations, "affinity": pin(node)}}
    work = {**task("work", 3), "minReplicas": 1, "elastic": {"templatePatch": patch}}
    core, tier = "a-work-0", {"a-work-1", "a-work-2"}

    async def body(testbed: Testbed) -> None:
        async def uids() -> dict[str, str]:
            pods = await testbed.pods("a")
            return {name: pod["metadata"]["uid"] for name, pod in pods.items()}

        async def is_complete() -> bool:
            pods = (await testbed.pods("a")).values()
            return len(pods) == 3 and all(pod["status"]["phase"] == "Running" for pod in pods)

        async def is_alone() -> bool:
            pods = await testbed.pods("a")
            return pods.keys() == before.keys() and all(
                pods[name]["metadata"]["uid"] != before[name]
                and "nodeName" not in pods[name]["spec"]
                for name in tier
            )

        async def says_why() -> bool:
            reason: str = condition(await testbed.status("a"), "Running")["reason"]
            return reason == "Unschedulable"

        async def taint(*more: Object) -> None:
            spot = {"key": key, "effect": "NoSchedule"}
            await testbed.client.patch(NODES, node, {"spec": {"taints": [spot, *more]}})

        async with (
            FakeKubelet(testbed.client, namespace=namespace, node=node, taint=key),
            testbed.operator(),
        ):
            await testbed.submit(job("a", work, backoffLimit=0))
            await testbed.until(is_complete, "the core and its tier to run")
            await testbed.phase("a", "Running")
            before = await uids()

            await taint({"key": "fake/reclaimed", "effect": "NoExecute"})
            await testbed.until(is_alone, "pods that wait for a node of the tier")
            await testbed.until(says_why, "the job to say what its tier waits for")
            assert (await uids())[core] == before[core]

            await taint()
            await testbed.until(is_complete, "the tier to come back")
            status = await testbed.status("a")
            assert (await uids())[core] == before[core]
            assert (status["restarts"], status["reschedules"]) == (0, 0)
            assert {*testbed.phases["a"]} <= {"Pending", "Starting", "Running"}

    on_testbed(kube_config, namespace, body)


def test_the_replicas_of_a_large_job_cost_one_create_each(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=120)))
            status = await testbed.phase("a", "Running")
            assert status["readyReplicas"] == 120
            assert set(testbed.created.values()) == {1}
            assert len(testbed.created) == 120
            assert sorted((await testbed.ranks("a")).values()) == list(range(120))

    on_testbed(kube_config, namespace, body)
