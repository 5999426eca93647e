"""A job's way through its phases, on a real API server."""

from __future__ import annotations

import pytest

from di_kube.errors import NotFound
from di_kube.resources import PODS
from tests.integration.operator_testbed import Testbed, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")


@pytest.mark.proves("dijob.md#status/starttime-completiontimestamp")
@with_testbed
async def test_a_job_runs_to_its_end_and_a_watcher_sees_every_phase(
    testbed: Testbed, namespace: str
) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task("learn", 1), task("collect", 3)))
        await testbed.phase("a", "Running")
        for pod in await testbed.pods("a"):
            await testbed.kubelet.finish(namespace, pod)
        status = await testbed.phase("a", "Succeeded")
        assert testbed.phases["a"] == ["Starting", "Running", "Succeeded"]
        assert status["replicas"] == 4
        assert status["readyReplicas"] == 0
        assert status["restarts"] == 0
        assert status["taskStatus"] == {"learn": {"Succeeded": 1}, "collect": {"Succeeded": 3}}
        assert {one["type"] for one in status["conditions"] if one["status"] == "True"} == {
            "Succeeded"
        }
        assert await testbed.ranks("a") == {
            "a-learn-0": 0,
            "a-collect-0": 1,
            "a-collect-1": 2,
            "a-collect-2": 3,
        }

        async def service_is_gone() -> bool:
            return not await testbed.service_exists("a")

        await testbed.until(service_is_gone, "the Service to go")
        assert set(testbed.created.values()) == {1}


@pytest.mark.parametrize("written", [True, False])
@with_testbed
async def test_a_completed_pod_that_is_evicted_does_not_run_again(
    testbed: Testbed, namespace: str, *, written: bool
) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task("learn"), task("evaluate", run_for="0")))

        async def has_succeeded() -> bool:
            if written:
                return (await testbed.status("a")).get("completedIndexes") == {"evaluate": "0"}
            pod = (await testbed.pods("a")).get("a-evaluate-0")
            return pod is not None and pod["status"]["phase"] == "Succeeded"

        await testbed.until(has_succeeded, "the pod to succeed")
        # As an eviction does: a pod that has ended is gone at once.
        await testbed.client.delete(PODS, "a-evaluate-0", namespace)
        await testbed.phase("a", "Running")
        await testbed.kubelet.finish(namespace, "a-learn-0")
        status = await testbed.phase("a", "Succeeded")
        assert (status["restarts"], status["reschedules"]) == (0, 0)
        assert testbed.created == {"a-learn-0": 1, "a-evaluate-0": 1}


@with_testbed
async def test_a_finished_job_is_deleted_when_its_time_to_live_is_over(testbed: Testbed) -> None:
    async with testbed.operator():
        await testbed.submit(job("a", task(run_for="0"), ttlSecondsAfterFinished=1))

        async def is_gone() -> bool:
            try:
                await testbed.job("a")
            except NotFound:
                return True
            return False

        await testbed.until(is_gone, "the job to go")
        await testbed.seen("a", "Succeeded")
        assert testbed.phases["a"][-1] == "Succeeded"

        async def no_pod_is_left() -> bool:
            return not await testbed.pods("a")

        await testbed.until(no_pod_is_left, "the pods to follow their owner")
