"""Jobs with a coordinator, against a real API server."""

from __future__ import annotations

import pytest

from di_api.names import LABEL_JOB
from di_kube.resources import SERVICES
from tests.integration.operator_testbed import (
    Object,
    Testbed,
    coordinated_job,
    replica,
    with_testbed,
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


@with_testbed
async def test_a_coordinator_gets_what_it_asks_for_until_it_ends(
    testbed: Testbed, namespace: str
) -> None:
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


@with_testbed
async def test_a_hundred_collectors_cost_two_creates_each(testbed: Testbed) -> None:
    async with testbed.operator():
        await testbed.submit(coordinated_job("a"))
        await testbed.phase("a", "Running")
        wanted = [replica(f"a-collector-{index:05}") for index in range(100)]
        await ask(testbed, "a", *wanted)
        names = ["a-coordinator", *(each["name"] for each in wanted)]
        await testbed.until(lambda: has(testbed, "a", *names), "all collectors")
        assert set(testbed.created.values()) == {1}
