"""A pod that a check finds on a slow node goes to another one, where the scheduler finds one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.resources import PODS
from tests.integration.operator.test_allocation import devices, nodes, where
from tests.integration.operator_testbed import Testbed, condition, job, on_testbed

pytestmark = pytest.mark.usefixtures("crd")

PROBLEM = "NodeCheckFailed"


async def tell(testbed: Testbed, pod: str, seconds: float) -> None:
    """The check of a pod ends, as the kubelet shows it."""
    ended = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:01Z",
        "containerID": "fake://check",
        "message": json.dumps({"seconds": seconds}),
    }
    status: dict[str, Any] = {
        "name": "di-node-check",
        "image": "",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    patch = {"status": {"initContainerStatuses": [status]}}
    await testbed.client.patch(PODS, pod, patch, testbed.namespace, subresource="status")


def test_a_pod_on_a_slow_node_goes_to_another(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        async with nodes(testbed, n1=1, n2=1, n3=1, n4=1), testbed.operator():
            train = devices(testbed, "train", 3) | {"nodeCheck": {}}
            await testbed.submit(job("a", train))
            await testbed.phase("a", "Running")
            before = await where(testbed, "a")
            slow = before.pop("a-train-1")
            for pod in before:
                await tell(testbed, pod, 1.0)
            await tell(testbed, "a-train-1", 2.5)

            async def moved() -> bool:
                now = await where(testbed, "a")
                return bool(now.get("a-train-1")) and now["a-train-1"] != slow

            await testbed.until(moved, "the pod to have left the slow node")
            told = condition(await testbed.status("a"), PROBLEM)
            assert (told["status"], told["reason"]) == ("True", "SlowNodes")
            assert f"{namespace}-{slow} took 2.5 s" in told["message"]
            await tell(testbed, "a-train-1", 1.0)

            async def is_fine() -> bool:
                found = await testbed.status("a")
                said: str = condition(found, PROBLEM)["status"]
                return found["phase"] == "Running" and said == "False"

            await testbed.until(is_fine, "a to run on nodes that are alike")
            status = await testbed.status("a")
            assert [*status["avoidedNodes"]["train"]] == [f"{namespace}-{slow}"]
            assert (status["reschedules"], status["restarts"]) == (1, 0)
            now = await where(testbed, "a")
            assert {pod: now[pod] for pod in before} == before

            async def is_told() -> bool:
                events = [e for e in await testbed.events("a") if e["reason"] == PROBLEM]
                return [event["type"] for event in events] == ["Warning"]

            await testbed.until(is_told, "one Warning")

    on_testbed(kube_config, namespace, body)
