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
from tests.integration.operator_field import Field, condition, job, on_field, task

pytestmark = pytest.mark.usefixtures("crd")

Object = dict[str, Any]


async def put_foreign_pod(field: Field, name: str, of_job: str) -> Object:
    """A pod that looks like the operator's, and is controlled by a ConfigMap."""
    owner = await field.client.create(
        CONFIGMAPS, {"metadata": {"name": f"owner-of-{name}"}}, field.namespace
    )
    labels = {LABEL_OPERATOR: OPERATOR_NAME, LABEL_JOB: of_job, LABEL_TASK_NAME: "collector"}
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    body = {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [reference | named]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    return await field.client.create(PODS, body, field.namespace)


@pytest.mark.parametrize("preemptible", [False, True])
def test_a_pod_of_others_that_wears_our_labels_is_not_touched(
    kube_config: KubeConfig, namespace: str, preemptible: bool
) -> None:
    async def body(field: Field) -> None:
        foreign = await put_foreign_pod(field, "a-collector-0", "a")
        async with field.operator(policy="fit"):
            await field.submit(job("a", task("collector"), preemptible=preemptible))
            failed = condition(await field.phase("a", "Failed"), "Failed")
            assert failed["reason"] == "PodNameConflict"
            assert "a-collector-0" in failed["message"]
            found = await field.client.get(PODS, "a-collector-0", namespace)
            assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
            assert "deletionTimestamp" not in found["metadata"]

    on_field(kube_config, namespace, body)


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
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task(replicas=2)))
            await field.phase("a", "Running")
            before = (await field.pods("a"))["a-work-1"]["metadata"]
            await field.client.patch(PODS, "a-work-1", patch, namespace)

            async def is_marked() -> bool:
                now = (await field.client.get(PODS, "a-work-1", namespace))["metadata"]
                return all(now[key] == before[key] for key in ("uid", "labels", "annotations"))

            await field.until(is_marked, "the marks to be put back")
            await field.kubelet.finish(namespace, "a-work-0")
            await field.kubelet.finish(namespace, "a-work-1")
            status = await field.phase("a", "Succeeded")
            assert (status["restarts"], status["reschedules"]) == (0, 0)
            assert field.phases["a"] == ["Starting", "Running", "Succeeded"]
            assert field.created == {"a-work-0": 1, "a-work-1": 1}
            (told,) = [e for e in await field.events("a") if e["reason"] == "MetadataRestored"]
            assert "a-work-1" in told["message"]

    on_field(kube_config, namespace, body)


def test_a_service_without_the_label_of_the_operator_gets_it_back(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task()))
            await field.phase("a", "Running")
            await field.client.patch(SERVICES, "di-a", edited({LABEL_OPERATOR: None}), namespace)

            async def is_marked() -> bool:
                service = await field.client.get(SERVICES, "di-a", namespace)
                return bool(service["metadata"]["labels"].get(LABEL_OPERATOR) == OPERATOR_NAME)

            await field.until(is_marked, "the label to be put back")
            await field.kubelet.finish(namespace, "a-work-0")
            await field.phase("a", "Succeeded")

            async def service_is_gone() -> bool:
                return not await field.service_exists("a")

            await field.until(service_is_gone, "the Service to go")

    on_field(kube_config, namespace, body)


def test_node_lists_that_were_deleted_or_edited_are_written_anew(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async def lists() -> Object:
            try:
                found = await field.client.get(CONFIGMAPS, "di-a", namespace)
            except NotFound:
                return {}
            return {"uid": found["metadata"]["uid"], **found["data"]}

        async with field.operator():
            await field.submit(job("a", task(replicas=101)))
            await field.phase("a", "Running")
            before = await lists()
            await field.client.delete(CONFIGMAPS, "di-a", namespace)

            async def is_remade() -> bool:
                now = await lists()
                return now.get("uid") not in (None, before["uid"])

            await field.until(is_remade, "the ConfigMap to be made again")
            remade = await lists()
            assert remade == before | {"uid": remade["uid"]}
            garbage = {"data": {"nodes": "nowhere"}}
            await field.client.patch(CONFIGMAPS, "di-a", garbage, namespace)

            async def is_right() -> bool:
                return await lists() == remade

            await field.until(is_right, "the lists to be right again")
            assert field.phases["a"] == ["Starting", "Running"]
            assert set(field.created.values()) == {1}

    on_field(kube_config, namespace, body)


async def write_status(field: Field, name: str, status: Object) -> None:
    body = {"status": status}
    await field.client.patch(DIJOBS, name, body, field.namespace, subresource="status")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_that_was_only_written_into_the_phase_is_not_believed(
    kube_config: KubeConfig, namespace: str, phase: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task(replicas=2)))
            await field.phase("a", "Running")
            await write_status(field, "a", {"phase": phase})

            async def is_told() -> bool:
                reasons = [event["reason"] for event in await field.events("a")]
                return "PhaseNotConfirmed" in reasons

            await field.until(is_told, "the event")
            status = await field.phase("a", "Running")
            assert status["readyReplicas"] == 2
            assert field.created == {"a-work-0": 1, "a-work-1": 1}
            await field.kubelet.finish(namespace, "a-work-0")
            await field.kubelet.finish(namespace, "a-work-1")
            status = await field.phase("a", "Succeeded")
            assert (status["restarts"], status["reschedules"]) == (0, 0)

    on_field(kube_config, namespace, body)


def test_an_end_written_in_full_is_somebodys_decision(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task(replicas=2)))
            status = await field.phase("a", "Running")
            ended = condition(status, "Running") | {"type": "Succeeded"}
            now = ended["lastTransitionTime"]
            full = {"phase": "Succeeded", "completionTimestamp": now, "conditions": [ended]}
            await write_status(field, "a", full)

            async def is_clean() -> bool:
                return not await field.pods("a") and not await field.service_exists("a")

            await field.until(is_clean, "the running pods and the Service to go")
            assert (await field.status("a"))["phase"] == "Succeeded"

    on_field(kube_config, namespace, body)


@pytest.mark.parametrize("put_back", [True, False], ids=["put back", "deleted"])
def test_a_started_job_waits_for_a_pod_whose_owner_was_taken_away(
    kube_config: KubeConfig, namespace: str, put_back: bool
) -> None:
    async def body(field: Field) -> None:
        async with field.operator():
            await field.submit(job("a", task(replicas=2)))
            await field.phase("a", "Running")
            before = (await field.pods("a"))["a-work-1"]["metadata"]
            nobody = {"metadata": {"ownerReferences": None}}
            await field.client.patch(PODS, "a-work-1", nobody, namespace)

            async def waits() -> bool:
                status = await field.status("a")
                if status["phase"] != "Rescheduling":
                    return False
                return bool(condition(status, "Rescheduling")["reason"] == "PodNameConflict")

            await field.until(waits, "the job to wait for the name")
            if put_back:
                owned = {"metadata": {"ownerReferences": before["ownerReferences"]}}
                await field.client.patch(PODS, "a-work-1", owned, namespace)
            else:
                await field.client.delete(PODS, "a-work-1", namespace)
            status = await field.phase("a", "Running")
            assert (status["restarts"], status["reschedules"]) == (0, 1)
            now = (await field.pods("a"))["a-work-1"]["metadata"]
            assert (now["uid"] == before["uid"]) == put_back
            assert now["ownerReferences"] == before["ownerReferences"]

    on_field(kube_config, namespace, body)
