"""What people do to a job's objects by hand, and objects of others under its names."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.errors import NotFound
from di_api.kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES
from di_api.names import (
    ANNOTATION_RANK,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)
from tests.integration.operator_testbed import Testbed, condition, job, on_testbed, task

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]


async def put_foreign_pod(testbed: Testbed, name: str, of_job: str) -> Object:
    """A pod that looks like the operator's, and is controlled by a ConfigMap."""
    owner = await testbed.client.create(
        CONFIGMAPS, {"metadata": {"name": f"owner-of-{name}"}}, testbed.namespace
    )
    labels = {LABEL_OPERATOR: OPERATOR_NAME, LABEL_JOB: of_job, LABEL_TASK_NAME: "collector"}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    body = {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [reference | named]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    return await testbed.client.create(PODS, body, testbed.namespace)


@pytest.mark.parametrize("preemptible", [False, True])
def test_a_pod_of_others_that_wears_our_labels_is_not_touched(
    kube_config: KubeConfig, namespace: str, preemptible: bool
) -> None:
    async def body(testbed: Testbed) -> None:
        foreign = await put_foreign_pod(testbed, "a-collector-0", "a")
        async with testbed.operator(policy="fit"):
            await testbed.submit(job("a", task("collector"), preemptible=preemptible))
            failed = condition(await testbed.phase("a", "Failed"), "Failed")
            assert failed["reason"] == "PodNameConflict"
            assert "a-collector-0" in failed["message"]
            found = await testbed.client.get(PODS, "a-collector-0", namespace)
            assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
            assert "deletionTimestamp" not in found["metadata"]

    on_testbed(kube_config, namespace, body)


def edited(labels: Object | None = None, annotations: Object | None = None) -> Object:
    """A patch of an object's metadata; None takes a key away."""
    return {"metadata": {"labels": labels or {}, "annotations": annotations or {}}}


@pytest.mark.parametrize(
    "patch",
    [
        edited({LABEL_JOB: None}),
        edited({LABEL_OPERATOR: None}),
        edited({LABEL_JOB: None, LABEL_OPERATOR: None}),
        edited({LABEL_JOB: "b", LABEL_TASK_NAME: "other"}, {ANNOTATION_RANK: "7"}),
    ],
    ids=["job", "operator", "both", "changed"],
)
def test_what_was_taken_off_a_running_pod_is_put_back(
    kube_config: KubeConfig, namespace: str, patch: Object
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            await testbed.phase("a", "Running")
            before = (await testbed.pods("a"))["a-work-1"]["metadata"]
            await testbed.client.patch(PODS, "a-work-1", patch, namespace)

            async def is_marked() -> bool:
                now = (await testbed.client.get(PODS, "a-work-1", namespace))["metadata"]
                return all(now[key] == before[key] for key in ("uid", "labels", "annotations"))

            await testbed.until(is_marked, "the marks to be put back")
            await testbed.kubelet.finish(namespace, "a-work-0")
            await testbed.kubelet.finish(namespace, "a-work-1")
            status = await testbed.phase("a", "Succeeded")
            assert (status["restarts"], status["reschedules"]) == (0, 0)
            assert testbed.phases["a"] == ["Starting", "Running", "Succeeded"]
            assert testbed.created == {"a-work-0": 1, "a-work-1": 1}
            (told,) = [e for e in await testbed.events("a") if e["reason"] == "MetadataRestored"]
            assert "a-work-1" in told["message"]

    on_testbed(kube_config, namespace, body)


def test_a_service_without_the_label_of_the_operator_gets_it_back(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task()))
            await testbed.phase("a", "Running")
            await testbed.client.patch(SERVICES, "di-a", edited({LABEL_OPERATOR: None}), namespace)

            async def is_marked() -> bool:
                service = await testbed.client.get(SERVICES, "di-a", namespace)
                return bool(service["metadata"]["labels"].get(LABEL_OPERATOR) == OPERATOR_NAME)

            await testbed.until(is_marked, "the label to be put back")
            await testbed.kubelet.finish(namespace, "a-work-0")
            await testbed.phase("a", "Succeeded")

            async def service_is_gone() -> bool:
                return not await testbed.service_exists("a")

            await testbed.until(service_is_gone, "the Service to go")

    on_testbed(kube_config, namespace, body)


def test_node_lists_that_were_deleted_or_edited_are_written_anew(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async def lists() -> Object:
            try:
                found = await testbed.client.get(CONFIGMAPS, "di-a", namespace)
            except NotFound:
                return {}
            return {"uid": found["metadata"]["uid"], **found["data"]}

        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=101)))
            await testbed.phase("a", "Running")
            before = await lists()
            await testbed.client.delete(CONFIGMAPS, "di-a", namespace)

            async def is_remade() -> bool:
                now = await lists()
                return now.get("uid") not in (None, before["uid"])

            await testbed.until(is_remade, "the ConfigMap to be made again")
            remade = await lists()
            assert remade == before | {"uid": remade["uid"]}
            garbage = {"data": {"nodes": "nowhere"}}
            await testbed.client.patch(CONFIGMAPS, "di-a", garbage, namespace)

            async def is_right() -> bool:
                return await lists() == remade

            await testbed.until(is_right, "the lists to be right again")
            assert testbed.phases["a"] == ["Starting", "Running"]
            assert set(testbed.created.values()) == {1}

    on_testbed(kube_config, namespace, body)


async def write_status(testbed: Testbed, name: str, status: Object) -> None:
    body = {"status": status}
    await testbed.client.patch(DIJOBS, name, body, testbed.namespace, subresource="status")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_that_was_only_written_into_the_phase_is_not_believed(
    kube_config: KubeConfig, namespace: str, phase: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            await testbed.phase("a", "Running")
            await write_status(testbed, "a", {"phase": phase})

            async def is_told() -> bool:
                reasons = [event["reason"] for event in await testbed.events("a")]
                return "PhaseNotConfirmed" in reasons

            await testbed.until(is_told, "the event")
            status = await testbed.phase("a", "Running")
            assert status["readyReplicas"] == 2
            assert testbed.created == {"a-work-0": 1, "a-work-1": 1}
            await testbed.kubelet.finish(namespace, "a-work-0")
            await testbed.kubelet.finish(namespace, "a-work-1")
            status = await testbed.phase("a", "Succeeded")
            assert (status["restarts"], status["reschedules"]) == (0, 0)

    on_testbed(kube_config, namespace, body)


def test_an_end_written_in_full_is_somebodys_decision(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            status = await testbed.phase("a", "Running")
            ended = condition(status, "Running") | {"type": "Succeeded"}
            now = ended["lastTransitionTime"]
            full = {"phase": "Succeeded", "completionTimestamp": now, "conditions": [ended]}
            await write_status(testbed, "a", full)

            async def is_clean() -> bool:
                return not await testbed.pods("a") and not await testbed.service_exists("a")

            await testbed.until(is_clean, "the running pods and the Service to go")
            assert (await testbed.status("a"))["phase"] == "Succeeded"

    on_testbed(kube_config, namespace, body)


@pytest.mark.parametrize("put_back", [True, False], ids=["put back", "deleted"])
def test_a_started_job_waits_for_a_pod_whose_owner_was_taken_away(
    kube_config: KubeConfig, namespace: str, put_back: bool
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            await testbed.phase("a", "Running")
            before = (await testbed.pods("a"))["a-work-1"]["metadata"]
            nobody = {"metadata": {"ownerReferences": None}}
            await testbed.client.patch(PODS, "a-work-1", nobody, namespace)

            async def waits() -> bool:
                status = await testbed.status("a")
                if status["phase"] != "Rescheduling":
                    return False
                return bool(condition(status, "Rescheduling")["reason"] == "PodNameConflict")

            await testbed.until(waits, "the job to wait for the name")
            if put_back:
                owned = {"metadata": {"ownerReferences": before["ownerReferences"]}}
                await testbed.client.patch(PODS, "a-work-1", owned, namespace)
            else:
                await testbed.client.delete(PODS, "a-work-1", namespace)
            status = await testbed.phase("a", "Running")
            assert (status["restarts"], status["reschedules"]) == (0, 1)
            now = (await testbed.pods("a"))["a-work-1"]["metadata"]
            assert (now["uid"] == before["uid"]) == put_back
            assert now["ownerReferences"] == before["ownerReferences"]

    on_testbed(kube_config, namespace, body)
