"""Jobs with a coordinator, against a real API server."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import SERVICES
from di_api.names import LABEL_JOB
from tests.integration.operator_field import (
    Field,
    Object,
    condition,
    coordinated_job,
    on_field,
    replica,
)

pytestmark = pytest.mark.usefixtures("crd")


async def services(field: Field, job: str) -> set[str]:
    found, _ = await field.client.list(
        SERVICES, field.namespace, label_selector=f"{LABEL_JOB}={job}"
    )
    return {service["metadata"]["name"] for service in found}


async def ask(field: Field, job: str, *replicas: Object) -> None:
    await field.patch(job, {"coordinated": {"replicas": list(replicas)}})


async def has(field: Field, job: str, *names: str) -> bool:
    """Exactly these pods are there and ready, each with its Service."""
    pods = await field.pods(job)
    ready = {
        name
        for name, pod in pods.items()
        for each in (pod.get("status") or {}).get("conditions") or ()
        if (each["type"], each["status"]) == ("Ready", "True")
    }
    return ready == set(names) == set(pods) == await services(field, job)


def test_a_coordinator_gets_what_it_asks_for_until_it_ends(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(coordinated_job("a"))
            await field.phase("a", "Running")
            first, second = replica("a-collector-bbbbb"), replica("a-learner-bbbbb", "learner")
            await ask(field, "a", first, second)
            names = ("a-coordinator", first["name"], second["name"])
            await field.until(lambda: has(field, "a", *names), "a collector and a learner")
            await ask(field, "a", second)
            await field.until(lambda: has(field, "a", names[0], names[2]), "no collector")

            await field.kubelet.finish(namespace, "a-coordinator")
            status = await field.phase("a", "Succeeded")
            assert status["replicaStatus"]["Learner"]["succeeded"] == 1
            assert field.phases["a"] == ["Starting", "Running", "Succeeded"]

            async def is_clean() -> bool:
                return not await services(field, "a") and len(await field.pods("a")) == 1

            await field.until(is_clean, "the learner and all Services to be gone")

    on_field(kube_config, namespace, body)


def test_a_failed_collector_is_replaced_and_a_failed_coordinator_ends_the_job(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(coordinated_job("a", replica("a-collector-bbbbb")))
            names = ("a-coordinator", "a-collector-bbbbb")
            await field.until(lambda: has(field, "a", *names), "a collector")
            await field.kubelet.finish(namespace, "a-collector-bbbbb", exit_code=7)

            async def is_replaced() -> bool:
                status = await field.status("a")
                return status["restarts"] == 1 and field.created["a-collector-bbbbb"] == 2

            await field.until(is_replaced, "the collector to be replaced")
            await field.until(lambda: has(field, "a", *names), "the collector to be ready")
            assert field.phases["a"] == ["Starting", "Running"]

            await field.kubelet.finish(namespace, "a-coordinator", exit_code=3)
            status = await field.phase("a", "Failed")
            message = condition(status, "Failed")["message"]
            assert message == "the coordinator failed: exit code 3"
            assert status["restarts"] == 1

    on_field(kube_config, namespace, body)


def test_a_hundred_collectors_cost_two_creates_each(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(coordinated_job("a"))
            await field.phase("a", "Running")
            wanted = [replica(f"a-collector-{index:05}") for index in range(100)]
            await ask(field, "a", *wanted)
            names = ["a-coordinator", *(each["name"] for each in wanted)]
            await field.until(lambda: has(field, "a", *names), "all collectors", deadline=60)
            assert set(field.created.values()) == {1}

    on_field(kube_config, namespace, body)


def test_deleting_the_job_takes_everything_along(kube_config: KubeConfig, namespace: str) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(coordinated_job("a", replica("a-collector-bbbbb")))
            await field.until(
                lambda: has(field, "a", "a-coordinator", "a-collector-bbbbb"), "a collector"
            )
            await field.delete("a")

            async def is_gone() -> bool:
                return not await field.pods("a") and not await services(field, "a")

            await field.until(is_gone, "pods and Services to be gone", deadline=90)

    on_field(kube_config, namespace, body)
