"""What the API server refuses, what others own, and what people do to a job by hand."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import DIJOBS, PODS, Resource
from tests.integration.operator_field import Field, condition, job, on_field, task

pytestmark = pytest.mark.usefixtures("crd")

QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota")


def test_a_job_over_quota_waits_and_runs_when_there_is_room(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
        await field.client.create(QUOTAS, quota, namespace)

        async def quota_counts() -> bool:
            found = await field.client.get(QUOTAS, "pods", namespace)
            return bool((found.get("status") or {}).get("hard"))

        await field.until(quota_counts, "the quota to be enforced", 30)
        async with field.operator():
            await field.submit(job("a", task(replicas=4)))

            async def waits() -> bool:
                status = await field.status("a")
                if status.get("phase") != "Pending":
                    return False
                return bool(condition(status, "Pending")["reason"] == "QuotaExceeded")

            await field.until(waits, "the job to wait for quota")
            assert (await field.status("a"))["restarts"] == 0
            await field.client.patch(QUOTAS, "pods", {"spec": {"hard": {"pods": "9"}}}, namespace)
            await field.phase("a", "Running", deadline=30)
            assert field.created == {f"a-work-{index}": 1 for index in range(4)}
            warnings = [e for e in await field.events("a") if e["reason"] == "QuotaExceeded"]
            assert len(warnings) == 1

    on_field(kube_config, namespace, body)


def test_a_template_the_api_server_refuses_ends_the_job_with_its_words(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            refused = job("a", task(replicas=2))
            container = refused["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            container["name"] = "Not_A_Label"
            await field.submit(refused)
            status = await field.phase("a", "Failed")
            failed = condition(status, "Failed")
            assert failed["reason"] == "InvalidTemplate"
            assert "spec.containers[0].name" in failed["message"]
            assert field.created == {}

            async def service_is_gone() -> bool:
                return not await field.service_exists("a")

            await field.until(service_is_gone, "the Service to go")

    on_field(kube_config, namespace, body)


def test_an_invalid_spec_that_met_no_webhook_ends_the_job(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task("x", depends_on=("y",)), task("y", depends_on=("x",))))
            status = await field.phase("a", "Failed")
            failed = condition(status, "Failed")
            assert failed["reason"] == "InvalidSpec"
            assert "spec.tasks" in failed["message"]
            assert field.created == {}
            assert not await field.service_exists("a")

    on_field(kube_config, namespace, body)


def test_a_running_job_whose_spec_would_not_be_admitted_goes_on(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        def told(status: dict[str, Any]) -> str | None:
            conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
            return conditions.get("SpecInvalid")

        async def is_told(wanted: str) -> None:
            async def is_there() -> bool:
                return told(await field.status(name)) == wanted

            await field.until(is_there, f"SpecInvalid to be {wanted}")

        # With as many pods as that, the last one's name would be too long; no schema can say it.
        name = "a" * 59
        async with field.operator():
            await field.submit(job(name, task("x")))
            await field.phase(name, "Running")
            uids = {pod: p["metadata"]["uid"] for pod, p in (await field.pods(name)).items()}
            await field.patch(name, {"tasks": [task("x") | {"maxReplicas": 100}]})
            await is_told("True")
        # Another replica, or the next version: it has seen nothing of the job, nor says its status.
        wiped = {"status": dict.fromkeys(await field.status(name))}
        await field.client.patch(DIJOBS, name, wiped, namespace, subresource="status")
        async with field.operator("two"):
            await is_told("True")
            status = await field.phase(name, "Running")
            assert "59 characters are too many" in condition(status, "SpecInvalid")["message"]
            pods = await field.pods(name)
            assert {pod: body["metadata"]["uid"] for pod, body in pods.items()} == uids
            await field.patch(name, {"tasks": [task("x")]})
            await is_told("False")
            await field.kubelet.finish(namespace, f"{name}-x-0")
            await field.phase(name, "Succeeded")
        assert "Failed" not in field.phases[name]
        assert field.created == {f"{name}-x-0": 1}

    on_field(kube_config, namespace, body)


def test_a_pod_of_somebody_else_is_not_touched(kube_config: KubeConfig, namespace: str) -> None:
    async def body(field: Field) -> None:
        foreign = {
            "metadata": {"name": "a-work-1"},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        uid = (await field.client.create(PODS, foreign, namespace))["metadata"]["uid"]
        async with field.operator():
            await field.submit(job("a", task(replicas=2)))
            status = await field.phase("a", "Failed")
            failed = condition(status, "Failed")
            assert failed["reason"] == "PodNameConflict"
            assert "a-work-1" in failed["message"]
            found = await field.client.get(PODS, "a-work-1", namespace)
            assert found["metadata"]["uid"] == uid
            assert "deletionTimestamp" not in found["metadata"]

    on_field(kube_config, namespace, body)


def test_a_job_created_again_under_its_name_gets_pods_of_its_own(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            again = job("a", task(replicas=2, stop_after="1"))
            await field.submit(again)
            await field.phase("a", "Running")
            old = {pod["metadata"]["uid"] for pod in (await field.pods("a")).values()}
            await field.delete("a")
            new = await field.submit(again)
            await field.phase("a", "Running", deadline=30)
            pods = (await field.pods("a")).values()
            assert len(pods) == 2
            assert not old & {pod["metadata"]["uid"] for pod in pods}
            owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
            assert owners == {new["metadata"]["uid"]}
            status = await field.status("a")
            assert (status["restarts"], status["reschedules"]) == (0, 0)

    on_field(kube_config, namespace, body)


def test_a_status_wiped_by_hand_is_rebuilt_without_touching_a_pod(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task(replicas=2)))
            await field.phase("a", "Running")
            found = await field.job("a")
            del found["status"]
            await field.client.replace(DIJOBS, "a", found, namespace, subresource="status")
            status = await field.phase("a", "Running")
            assert status["readyReplicas"] == 2
            assert field.created == {"a-work-0": 1, "a-work-1": 1}

    on_field(kube_config, namespace, body)


def test_the_operator_keeps_what_others_write_into_the_status(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task()))
            await field.phase("a", "Running")
            profilings = {"status": {"profilings": {"episodes": 12}}}
            await field.client.patch(DIJOBS, "a", profilings, namespace, subresource="status")
            await field.kubelet.finish(namespace, "a-work-0")
            status = await field.phase("a", "Succeeded")
            assert status["profilings"] == {"episodes": 12}

    on_field(kube_config, namespace, body)
