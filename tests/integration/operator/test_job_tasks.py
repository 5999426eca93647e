"""Tasks that are scaled on their own: by kubectl scale, and by Kubernetes' own autoscaler."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from di_api.names import ANNOTATION_SCALED, API_VERSION, TASK_KIND
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import DIJOB_TASKS, PODS, Resource
from tests.autoscaler_page import manifests
from tests.integration.autoscaler_metrics import metrics
from tests.integration.conftest import ROOT, ApiServer
from tests.integration.operator_testbed import Object, Testbed, condition, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd", "job_tasks")

AUTOSCALERS = Resource(
    group="autoscaling",
    version="v2",
    plural="horizontalpodautoscalers",
    kind="HorizontalPodAutoscaler",
)


def scalable(replicas: int = 1, **fields: Any) -> Object:
    bounds = {"minReplicas": 1, "maxReplicas": 4, "scalable": True}
    return {**task("collect", replicas), **bounds, **fields}


async def view(testbed: Testbed, name: str = "a-collect") -> Object:
    return await testbed.client.get(DIJOB_TASKS, name, testbed.namespace)


async def is_gone(testbed: Testbed) -> bool:
    try:
        await view(testbed)
    except NotFound:
        return True
    return False


async def shows(testbed: Testbed, replicas: int) -> bool:
    """Whether job, view and pods agree."""
    try:
        found = await view(testbed)
    except NotFound:
        return False
    (asked,) = (
        each.get("replicas", 1)
        for each in (await testbed.job("a"))["spec"]["tasks"]
        if each["name"] == "collect"
    )
    status = found.get("status") or {}
    counts = status.get("replicas"), status.get("readyReplicas")
    return (asked, found["spec"]["replicas"], counts) == (replicas, replicas, (replicas, replicas))


@pytest.mark.proves("teams-autoscalers.md#a-task-on-its-own")
@with_testbed
async def test_a_task_is_scaled_by_kubectl_and_shows_what_others_write(
    testbed: Testbed, api_server: ApiServer, namespace: str
) -> None:
    async def kubectl(*arguments: str) -> tuple[int, str]:
        command = [str(api_server.binary("kubectl")), "--namespace", namespace, *arguments]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            env={"KUBECONFIG": str(api_server.kubeconfig), "HOME": str(Path.home())},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    async with testbed.operator(job_tasks=True):
        await testbed.submit(job("a", task("learn"), scalable(2)))
        await testbed.submit(job("b", task("learn")))
        await testbed.phase("a", "Running")
        await testbed.until(lambda: shows(testbed, 2), "the task to be shown")
        selector = (await view(testbed))["status"]["selector"]
        selected, _ = await testbed.client.list(PODS, namespace, label_selector=selector)
        assert {pod["metadata"]["name"] for pod in selected} == {"a-collect-0", "a-collect-1"}

        code, said = await kubectl("scale", "dijobtask/a-collect", "--replicas", "4")
        assert (code, said.strip()) == (0, "dijobtask.diengine.opendilab.org/a-collect scaled")
        await testbed.until(lambda: shows(testbed, 4), "four replicas")
        for refused in ("5", "0"):
            code, said = await kubectl("scale", "dijobtask/a-collect", "--replicas", refused)
            assert code != 0
            assert "the task may have 1 to 4 replicas" in said
        assert await shows(testbed, 4)

        await testbed.patch("a", {"tasks": [task("learn"), scalable(1)]})
        await testbed.until(lambda: shows(testbed, 1), "the view to follow the job")
        await testbed.patch("a", {"tasks": [task("learn"), scalable(3, minReplicas=2)]})
        await testbed.until(lambda: shows(testbed, 3), "the view to follow the bounds")
        assert (await view(testbed))["spec"]["minReplicas"] == 2
        code, said = await kubectl("scale", "dijobtask/a-collect", "--replicas", "1")
        assert "may have 2 to 4 replicas" in said

        listed, _ = await testbed.client.list(DIJOB_TASKS, namespace)
        assert [each["metadata"]["name"] for each in listed] == ["a-collect"]
        marked = (await testbed.job("a"))["metadata"]["annotations"]
        uid = (await view(testbed))["metadata"]["uid"]
        assert uid in marked[ANNOTATION_SCALED]

        await testbed.patch("a", {"tasks": [task("learn"), scalable(3, scalable=False)]})
        await testbed.until(lambda: is_gone(testbed), "the view to go")
        await testbed.patch("a", {"tasks": [task("learn"), scalable(3)]})
        await testbed.until(lambda: shows(testbed, 3), "the view to be made again")


@pytest.mark.proves("operations.md#availability/all-of-the-operator")
@with_testbed
async def test_what_is_written_while_no_operator_runs_is_taken_when_one_does(
    testbed: Testbed, namespace: str
) -> None:
    async with testbed.operator(job_tasks=True):
        await testbed.submit(
            job("a", scalable(2, **{"template": task(run_for="3600")["template"]}))
        )
        await testbed.until(lambda: shows(testbed, 2), "the task to be shown")
    scale = {"spec": {"replicas": 4}}
    await testbed.client.patch(DIJOB_TASKS, "a-collect", scale, namespace, subresource="scale")
    async with testbed.operator("two", job_tasks=True):
        await testbed.until(lambda: shows(testbed, 4), "what was written")
        await testbed.client.delete(DIJOB_TASKS, "a-collect", namespace)
        await testbed.until(lambda: shows(testbed, 4), "the view to be made again")
        await testbed.delete("a")


@pytest.mark.proves(
    "teams-autoscalers.md#by-the-load-of-processors", "teams-autoscalers.md#by-what-a-job-reports"
)
@with_testbed
async def test_the_autoscaler_of_kubernetes_scales_tasks_as_the_page_has_it(
    testbed: Testbed, kube_config: KubeConfig, namespace: str
) -> None:
    """By a processor's use and by an external metric; what measures them is made up."""

    async def replicas() -> dict[str, int]:
        spec = (await testbed.job("cartpole"))["spec"]
        return {each["type"]: each.get("replicas", 1) for each in spec["tasks"]}

    async def have(collectors: int, evaluators: int) -> bool:
        wanted = {"learner": 1, "collector": collectors, "evaluator": evaluators}
        return await replicas() == wanted

    async def is_refused() -> bool:
        scaler = await testbed.client.get(AUTOSCALERS, "cartpole-evaluator", namespace)
        told = condition(scaler["status"], "AbleToScale")
        return told["status"] == "False" and "maxReplicas" in told["message"]

    async def compute(cpu: str) -> None:
        for pod in (await testbed.pods("cartpole")).values():
            await stand_in.use(pod, cpu)

    async with (
        metrics(kube_config, testbed.client, namespace, external="learner-waiting") as stand_in,
        testbed.operator(job_tasks=True),
    ):
        await testbed.submit(manifests("DIJob")["cartpole"])
        await testbed.phase("cartpole", "Running")
        await stand_in.say("600m", {"dijob": "cartpole"})
        await compute("70m")
        for scaler in manifests("HorizontalPodAutoscaler").values():
            # It waits for five minutes before it takes replicas away.
            at_once = {"scaleDown": {"stabilizationWindowSeconds": 0}}
            behavior = {**scaler["spec"].get("behavior", {}), **at_once}
            changed = {**scaler, "spec": {**scaler["spec"], "behavior": behavior}}
            await testbed.client.create(AUTOSCALERS, changed, namespace)
        await testbed.until(lambda: have(4, 1), "two more collectors")
        await stand_in.say("200m", {"dijob": "cartpole"})
        await compute("140m")
        await testbed.until(lambda: have(4, 2), "one more evaluator")
        await stand_in.say("50m", {"dijob": "cartpole"})
        await compute("70m")
        await testbed.until(lambda: have(1, 2), "fewer collectors")
        # One whose bounds are wider than the task's is refused, and tells of it.
        wider = {"spec": {"maxReplicas": 50}}
        await testbed.client.patch(AUTOSCALERS, "cartpole-evaluator", wider, namespace)
        await compute("990m")
        await testbed.until(is_refused, "the autoscaler to say that it cannot scale")
        assert await have(1, 2)


def test_the_scaled_object_of_the_page_is_about_a_task_and_a_metric_that_there_are() -> None:
    (scaled,) = manifests("ScaledObject").values()
    target = {"apiVersion": API_VERSION, "kind": TASK_KIND, "name": "cartpole-collector"}
    assert scaled["spec"]["scaleTargetRef"] == target
    task_of_it = manifests("DIJob")["cartpole"]["spec"]["tasks"][1]
    assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (
        task_of_it["minReplicas"],
        task_of_it["maxReplicas"],
    )
    (trigger,) = scaled["spec"]["triggers"]
    metric = trigger["metadata"]["query"].partition("{")[0]
    assert f"`{metric}`" in (ROOT / "docs/reference/metrics.md").read_text()
