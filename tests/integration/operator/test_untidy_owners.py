"""What people do to a job's objects by hand, and objects of others under its names."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import ANNOTATION_RANK, LABEL_JOB, LABEL_OPERATOR, LABEL_TASK_NAME, OPERATOR_NAME
from di_kube.errors import NotFound
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES
from tests.integration.operator_testbed import Testbed, job, task, with_testbed

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
@with_testbed
async def test_a_pod_of_others_that_wears_our_labels_is_not_touched(
    testbed: Testbed, namespace: str, preemptible: bool
) -> None:
    foreign = await put_foreign_pod(testbed, "a-collector-0", "a")
    async with testbed.operator(policy="fit"):
        await testbed.submit(job("a", task("collector"), preemptible=preemptible))

        async def waits() -> bool:
            told = (await testbed.status("a")).get("conditions") or [{}]
            is_taken = told[0].get("reason") == "PodNameConflict"
            return is_taken and "a-collector-0" in told[0]["message"]

        await testbed.until(waits, "the job to wait for the name")
        found = await testbed.client.get(PODS, "a-collector-0", namespace)
        assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"]


@pytest.mark.extended
@with_testbed
async def test_a_job_made_again_takes_over_from_orphans_once_they_are_deleted(
    testbed: Testbed, namespace: str
) -> None:
    orphan = {"ownerReferences": None}
    async with testbed.operator():
        await testbed.submit(job("a", task()))
        await testbed.phase("a", "Running")
    # What --cascade=orphan leaves. The garbage collector would delete what still has an owner.
    for resource, name in ((PODS, "a-work-0"), (SERVICES, "di-a")):
        await testbed.client.patch(resource, name, {"metadata": orphan}, namespace)
    await testbed.client.delete(DIJOBS, "a", namespace)
    async with testbed.operator():
        await testbed.submit(job("a", task()))
        for resource, name in ((SERVICES, "di-a"), (PODS, "a-work-0")):

            async def waits(name: str = name) -> bool:
                told = (await testbed.status("a")).get("conditions") or [{}]
                is_taken = told[0].get("reason") == "PodNameConflict"
                return is_taken and name in told[0]["message"]

            await testbed.until(waits, f"the job to wait for {name}")
            await testbed.client.delete(resource, name, namespace)
        await testbed.phase("a", "Running")


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
@with_testbed
async def test_what_was_taken_off_a_running_pod_is_put_back(
    testbed: Testbed, namespace: str, patch: Object
) -> None:
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
        (event,) = await testbed.has_events("a", "MetadataRestored")
        assert "a-work-1" in event["message"]


@with_testbed
async def test_a_pod_that_an_ended_job_does_not_need_gets_its_label_back(
    testbed: Testbed, namespace: str
) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task(), cleanPodPolicy="None"))
        await testbed.phase("a", "Running")
        await testbed.kubelet.finish(namespace, "a-work-0")
        await testbed.phase("a", "Succeeded")
        await testbed.client.patch(PODS, "a-work-0", edited({LABEL_OPERATOR: None}), namespace)

        async def is_marked() -> bool:
            pod = await testbed.client.get(PODS, "a-work-0", namespace)
            return bool(pod["metadata"]["labels"].get(LABEL_OPERATOR) == OPERATOR_NAME)

        await testbed.until(is_marked, "the label to be put back")


@with_testbed
async def test_a_service_without_the_label_of_the_operator_gets_it_back(testbed: Testbed) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task()))
        await testbed.phase("a", "Running")
        unmarked = edited({LABEL_OPERATOR: None})
        await testbed.client.patch(SERVICES, "di-a", unmarked, testbed.namespace)

        async def is_marked() -> bool:
            service = await testbed.client.get(SERVICES, "di-a", testbed.namespace)
            return bool(service["metadata"]["labels"].get(LABEL_OPERATOR) == OPERATOR_NAME)

        await testbed.until(is_marked, "the label to be put back")


@with_testbed
async def test_node_lists_that_were_deleted_or_edited_are_written_anew(
    testbed: Testbed, namespace: str
) -> None:
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
