"""What the API server refuses, what others own, and what people do to a job by hand."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import DIJOBS, PODS, SERVICES, Resource
from di_api.names import LABEL_JOB
from tests.integration.operator_testbed import (
    PRIORITY_CLASSES,
    Testbed,
    condition,
    job,
    on_testbed,
    task,
)

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]
QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota")


@pytest.mark.proves("teams.md#a-resourcequota")
def test_a_job_over_quota_waits_and_runs_when_there_is_room(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
        await testbed.client.create(QUOTAS, quota, namespace)

        async def quota_counts() -> bool:
            found = await testbed.client.get(QUOTAS, "pods", namespace)
            return bool((found.get("status") or {}).get("hard"))

        await testbed.until(quota_counts, "the quota to be enforced")
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=4)))

            async def waits() -> bool:
                status = await testbed.status("a")
                if status.get("phase") != "Pending":
                    return False
                return bool(condition(status, "Pending")["reason"] == "QuotaExceeded")

            await testbed.until(waits, "the job to wait for quota")
            assert (await testbed.status("a"))["restarts"] == 0
            await testbed.client.patch(QUOTAS, "pods", {"spec": {"hard": {"pods": "9"}}}, namespace)
            await testbed.phase("a", "Running")
            assert testbed.created == {f"a-work-{index}": 1 for index in range(4)}
            warnings = [e for e in await testbed.events("a") if e["reason"] == "QuotaExceeded"]
            assert len(warnings) == 1

    on_testbed(kube_config, namespace, body)


def test_a_job_whose_priority_class_is_missing_waits_for_it(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator(high_priority_class=namespace):
            await testbed.submit(job("a", task(), priority="high"))

            async def waits() -> bool:
                status = await testbed.status("a")
                if status.get("phase") != "Pending":
                    return False
                return bool(condition(status, "Pending")["reason"] == "CreateForbidden")

            await testbed.until(waits, "the job to wait for its class")
            message = condition(await testbed.status("a"), "Pending")["message"]
            assert f"no PriorityClass with name {namespace} was found" in message

            made: Object = {"metadata": {"name": namespace}, "value": 7}
            await testbed.client.create(PRIORITY_CLASSES, made)
            try:
                await testbed.phase("a", "Running")
                (pod,) = (await testbed.pods("a")).values()
                assert pod["spec"]["priority"] == 7
            finally:
                await testbed.client.delete(PRIORITY_CLASSES, namespace)

    on_testbed(kube_config, namespace, body)


def test_a_template_the_api_server_refuses_ends_the_job_with_its_words(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            refused = job("a", task(replicas=2))
            container = refused["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
            container["name"] = "Not_A_Label"
            await testbed.submit(refused)
            status = await testbed.phase("a", "Failed")
            failed = condition(status, "Failed")
            assert failed["reason"] == "InvalidTemplate"
            assert "spec.containers[0].name" in failed["message"]
            assert testbed.created == {}

            async def service_is_gone() -> bool:
                return not await testbed.service_exists("a")

            await testbed.until(service_is_gone, "the Service to go")

    on_testbed(kube_config, namespace, body)


def test_an_invalid_spec_that_met_no_webhook_ends_the_job(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(
                job("a", task("x", depends_on=("y",)), task("y", depends_on=("x",)))
            )
            status = await testbed.phase("a", "Failed")
            failed = condition(status, "Failed")
            assert failed["reason"] == "InvalidSpec"
            assert "spec.tasks" in failed["message"]
            assert testbed.created == {}
            assert not await testbed.service_exists("a")

    on_testbed(kube_config, namespace, body)


def test_a_running_job_whose_spec_would_not_be_admitted_goes_on(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        def told(status: dict[str, Any]) -> str | None:
            conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
            return conditions.get("SpecInvalid")

        async def is_told(wanted: str) -> None:
            async def is_there() -> bool:
                return told(await testbed.status(name)) == wanted

            await testbed.until(is_there, f"SpecInvalid to be {wanted}")

        # With as many pods as that, the last one's name would be too long; no schema can say it.
        name = "a" * 59
        async with testbed.operator():
            await testbed.submit(job(name, task("x")))
            await testbed.phase(name, "Running")
            uids = {pod: p["metadata"]["uid"] for pod, p in (await testbed.pods(name)).items()}
            await testbed.patch(name, {"tasks": [task("x") | {"maxReplicas": 100}]})
            await is_told("True")
        # Another replica, or the next version: it has seen nothing of the job, nor says its status.
        wiped = {"status": dict.fromkeys(await testbed.status(name))}
        await testbed.client.patch(DIJOBS, name, wiped, namespace, subresource="status")
        async with testbed.operator("two"):
            await is_told("True")
            status = await testbed.phase(name, "Running")
            assert "59 characters are too many" in condition(status, "SpecInvalid")["message"]
            pods = await testbed.pods(name)
            assert {pod: body["metadata"]["uid"] for pod, body in pods.items()} == uids
            await testbed.patch(name, {"tasks": [task("x")]})
            await is_told("False")
            await testbed.kubelet.finish(namespace, f"{name}-x-0")
            await testbed.phase(name, "Succeeded")
        assert "Failed" not in testbed.phases[name]
        assert testbed.created == {f"{name}-x-0": 1}

    on_testbed(kube_config, namespace, body)


def test_a_pod_of_somebody_else_is_not_touched(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        foreign = {
            "metadata": {"name": "a-work-1"},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        }
        uid = (await testbed.client.create(PODS, foreign, namespace))["metadata"]["uid"]
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            status = await testbed.phase("a", "Failed")
            failed = condition(status, "Failed")
            assert failed["reason"] == "PodNameConflict"
            assert "a-work-1" in failed["message"]
            found = await testbed.client.get(PODS, "a-work-1", namespace)
            assert found["metadata"]["uid"] == uid
            assert "deletionTimestamp" not in found["metadata"]

    on_testbed(kube_config, namespace, body)


def test_a_job_created_again_under_its_name_gets_pods_of_its_own(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            again = job("a", task(replicas=2, stop_after="1"))
            await testbed.submit(again)
            await testbed.phase("a", "Running")
            old = {pod["metadata"]["uid"] for pod in (await testbed.pods("a")).values()}
            await testbed.delete("a")
            new = await testbed.submit(again)
            await testbed.phase("a", "Running")
            pods = (await testbed.pods("a")).values()
            assert len(pods) == 2
            assert not old & {pod["metadata"]["uid"] for pod in pods}
            owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}
            assert owners == {new["metadata"]["uid"]}
            status = await testbed.status("a")
            assert (status["restarts"], status["reschedules"]) == (0, 0)

    on_testbed(kube_config, namespace, body)


@pytest.mark.proves("lifecycle.md#what-is-relied-on-and-where-it-ends")
def test_a_status_wiped_by_hand_is_rebuilt_without_touching_a_pod(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            await testbed.phase("a", "Running")
            found = await testbed.job("a")
            del found["status"]
            await testbed.client.replace(DIJOBS, "a", found, namespace, subresource="status")
            status = await testbed.phase("a", "Running")
            assert status["readyReplicas"] == 2
            assert testbed.created == {"a-work-0": 1, "a-work-1": 1}

    on_testbed(kube_config, namespace, body)


def test_the_operator_keeps_what_others_write_into_the_status(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task()))
            await testbed.phase("a", "Running")
            profilings = {"status": {"profilings": {"episodes": 12}}}
            await testbed.client.patch(DIJOBS, "a", profilings, namespace, subresource="status")
            await testbed.kubelet.finish(namespace, "a-work-0")
            status = await testbed.phase("a", "Succeeded")
            assert status["profilings"] == {"episodes": 12}

    on_testbed(kube_config, namespace, body)


def test_an_edited_selector_of_a_jobs_service_is_put_right(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task()))
            await testbed.phase("a", "Running")
            before = (await testbed.client.get(SERVICES, "di-a", namespace))["spec"]
            other: Object = {"selector": {"app": "mine", LABEL_JOB: None}}
            await testbed.client.patch(SERVICES, "di-a", {"spec": other}, namespace)

            async def is_right() -> bool:
                found = await testbed.client.get(SERVICES, "di-a", namespace)
                return bool(found["spec"] == before)

            await testbed.until(is_right, "the selector to be put right")

            async def is_told() -> bool:
                return "ServiceRestored" in {each["reason"] for each in await testbed.events("a")}

            await testbed.until(is_told, "an event about it")

    on_testbed(kube_config, namespace, body)
