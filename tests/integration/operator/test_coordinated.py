"""Jobs with a coordinator, against a real API server."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import SERVICES
from di_api.names import LABEL_JOB
from tests.integration.operator_testbed import (
    Object,
    Testbed,
    condition,
    coordinated_job,
    on_testbed,
    replica,
)

pytestmark = pytest.mark.usefixtures("crd")


async def services(testbed: Testbed, job: str) -> set[str]:
    found, _ = await testbed.client.list(
        SERVICES, testbed.namespace, label_selector=f"{LABEL_JOB}={job}"
    )
    return {service["metadata"]["name"] for service in found}


async def ask(testbed: Testbed, job: str, *replicas: Object) -> None:
    await testbed.patch(job, {"coordinated": {"replicas": list(replicas)}})


async def has(testbed: Testbed, job: str, *names: str) -> bool:
    """Exactly these pods are there and ready, each with its Service."""
    pods = await testbed.pods(job)
    ready = {
        name
        for name, pod in pods.items()
        for each in (pod.get("status") or {}).get("conditions") or ()
        if (each["type"], each["status"]) == ("Ready", "True")
    }
    return ready == set(names) == set(pods) == await services(testbed, job)


def test_a_coordinator_gets_what_it_asks_for_until_it_ends(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(coordinated_job("a"))
            await testbed.phase("a", "Running")
            first, second = replica("a-collector-bbbbb"), replica("a-learner-bbbbb", "learner")
            await ask(testbed, "a", first, second)
            names = ("a-coordinator", first["name"], second["name"])
            await testbed.until(lambda: has(testbed, "a", *names), "a collector and a learner")
            await ask(testbed, "a", second)
            await testbed.until(lambda: has(testbed, "a", names[0], names[2]), "no collector")

            await testbed.kubelet.finish(namespace, "a-coordinator")
            status = await testbed.phase("a", "Succeeded")
            assert status["replicaStatus"]["Learner"]["succeeded"] == 1
            assert testbed.phases["a"] == ["Starting", "Running", "Succeeded"]

            async def is_clean() -> bool:
                return not await services(testbed, "a") and len(await testbed.pods("a")) == 1

            await testbed.until(is_clean, "the learner and all Services to be gone")

    on_testbed(kube_config, namespace, body)


def test_a_failed_collector_is_replaced_and_a_failed_coordinator_ends_the_job(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(coordinated_job("a", replica("a-collector-bbbbb")))
            names = ("a-coordinator", "a-collector-bbbbb")
            await testbed.until(lambda: has(testbed, "a", *names), "a collector")
            await testbed.kubelet.finish(namespace, "a-collector-bbbbb", exit_code=7)

            async def is_replaced() -> bool:
                status = await testbed.status("a")
                return status["restarts"] == 1 and testbed.created["a-collector-bbbbb"] == 2

            await testbed.until(is_replaced, "the collector to be replaced")
            await testbed.until(lambda: has(testbed, "a", *names), "the collector to be ready")
            assert testbed.phases["a"] == ["Starting", "Running"]

            await testbed.kubelet.finish(namespace, "a-coordinator", exit_code=3)
            status = await testbed.phase("a", "Failed")
            message = condition(status, "Failed")["message"]
            assert message == "the coordinator failed: exit code 3"
            assert status["restarts"] == 1

    on_testbed(kube_config, namespace, body)


def test_a_hundred_collectors_cost_two_creates_each(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(coordinated_job("a"))
            await testbed.phase("a", "Running")
            wanted = [replica(f"a-collector-{index:05}") for index in range(100)]
            await ask(testbed, "a", *wanted)
            names = ["a-coordinator", *(each["name"] for each in wanted)]
            await testbed.until(lambda: has(testbed, "a", *names), "all collectors")
            assert set(testbed.created.values()) == {1}

    on_testbed(kube_config, namespace, body)


def test_deleting_the_job_takes_everything_along(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(coordinated_job("a", replica("a-collector-bbbbb")))
            await testbed.until(
                lambda: has(testbed, "a", "a-coordinator", "a-collector-bbbbb"), "a collector"
            )
            await testbed.delete("a")

            async def is_gone() -> bool:
                return not await testbed.pods("a") and not await services(testbed, "a")

            await testbed.until(is_gone, "pods and Services to be gone")

    on_testbed(kube_config, namespace, body)
