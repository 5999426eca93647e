"""A job's way through its phases, on a real API server."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.errors import NotFound
from di_api.kube.resources import PODS
from tests.integration.operator_testbed import Testbed, condition, job, on_testbed, task

pytestmark = pytest.mark.usefixtures("crd")


@pytest.mark.proves("dijob.md#status/starttime-completiontimestamp")
def test_a_job_runs_to_its_end_and_a_watcher_sees_every_phase(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(
                job("a", task("learn", 1, run_for="1"), task("collect", 3, run_for="1"))
            )
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

    on_testbed(kube_config, namespace, body)


@pytest.mark.proves("dijob.md#status/restarts")
def test_a_failing_pod_is_restarted_and_counted_once(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            await testbed.phase("a", "Running")
            before = (await testbed.pods("a"))["a-work-1"]["metadata"]["uid"]
            await testbed.kubelet.finish(namespace, "a-work-1", 137, "OOMKilled")

            async def is_restarted() -> bool:
                status = await testbed.status("a")
                return (status["restarts"], status["phase"]) == (1, "Running")

            await testbed.until(is_restarted, "the job to run again")
            await testbed.seen("a", "Restarting")
            pods = await testbed.pods("a")
            assert pods["a-work-1"]["metadata"]["uid"] != before
            assert testbed.created == {"a-work-0": 1, "a-work-1": 2}

            async def is_told() -> bool:
                reasons = [event["reason"] for event in await testbed.events("a")]
                return "JobRestarting" in reasons

            await testbed.until(is_told, "the event")
            (told,) = [e for e in await testbed.events("a") if e["reason"] == "JobRestarting"]
            assert "a-work-1" in told["message"]
            assert "OOMKilled" in told["message"]

    on_testbed(kube_config, namespace, body)


@pytest.mark.proves("lifecycle.md#failure/spec-backofflimit", "dijob.md#spec/backofflimit")
def test_a_job_whose_restarts_are_used_up_is_failed(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            failing = task("bad", run_for="0", exit_code="3")
            await testbed.submit(job("a", failing, task("good"), backoffLimit=2))
            status = await testbed.phase("a", "Failed")
            assert status["restarts"] == 2
            assert "exit code 3" in condition(status, "Failed")["message"]
            assert testbed.created["a-bad-0"] == 3
            assert testbed.created["a-good-0"] == 1

    on_testbed(kube_config, namespace, body)


def test_without_restarts_allowed_the_first_failure_ends_the_job(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(run_for="0", exit_code="1"), backoffLimit=0))
            status = await testbed.phase("a", "Failed")
            assert status["restarts"] == 0
            assert testbed.created == {"a-work-0": 1}

    on_testbed(kube_config, namespace, body)


def test_a_deleted_pod_comes_back_without_spending_a_restart(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=3)))
            await testbed.phase("a", "Running")
            ranks = await testbed.ranks("a")
            before = (await testbed.pods("a"))["a-work-1"]["metadata"]["uid"]
            await testbed.client.delete(PODS, "a-work-1", namespace)

            async def is_back() -> bool:
                pod = (await testbed.pods("a")).get("a-work-1")
                running = (await testbed.status("a"))["phase"] == "Running"
                return running and pod is not None and pod["metadata"]["uid"] != before

            await testbed.until(is_back, "the pod to come back")
            assert await testbed.ranks("a") == ranks
            assert (await testbed.status("a"))["restarts"] == 0

    on_testbed(kube_config, namespace, body)


def test_a_task_waits_for_those_it_depends_on(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(
                job(
                    "a",
                    task("learn", ready_after="1"),
                    task("collect", 2, depends_on=("learn",)),
                )
            )
            await testbed.phase("a", "Running")
            pods = await testbed.pods("a")
            ready = next(
                one["lastTransitionTime"]
                for one in pods["a-learn-0"]["status"]["conditions"]
                if one["type"] == "Ready"
            )
            for name in ("a-collect-0", "a-collect-1"):
                assert pods[name]["metadata"]["creationTimestamp"] >= ready

    on_testbed(kube_config, namespace, body)


@pytest.mark.parametrize(
    ("policy", "left"),
    [("Running", {"a-short-0"}), ("All", set()), ("None", {"a-short-0", "a-long-0", "a-bad-0"})],
)
def test_clean_up_keeps_what_the_policy_says(
    kube_config: KubeConfig, namespace: str, policy: str, left: set[str]
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(
                job(
                    "a",
                    task("short", run_for="0"),
                    task("long"),
                    task("bad"),
                    cleanPodPolicy=policy,
                    backoffLimit=0,
                )
            )
            await testbed.phase("a", "Running")
            await testbed.kubelet.finish(namespace, "a-bad-0", 1)
            await testbed.phase("a", "Failed")
            expected = left | ({"a-bad-0"} if policy == "Running" else set())

            async def is_clean() -> bool:
                return set(
                    await testbed.pods("a")
                ) == expected and not await testbed.service_exists("a")

            await testbed.until(is_clean, f"the pods of policy {policy} to be left")

    on_testbed(kube_config, namespace, body)


def test_a_suspended_job_gives_up_its_pods_and_resumes(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(replicas=2)))
            await testbed.phase("a", "Running")
            await testbed.patch("a", {"suspend": True})

            async def is_suspended() -> bool:
                status = await testbed.status("a")
                return status["phase"] == "Pending" and not await testbed.pods("a")

            await testbed.until(is_suspended, "the pods of the suspended job to go")
            assert condition(await testbed.status("a"), "Suspended")["status"] == "True"
            await testbed.patch("a", {"suspend": False})
            status = await testbed.phase("a", "Running")
            assert condition(status, "Suspended")["status"] == "False"
            assert status["restarts"] == 0

    on_testbed(kube_config, namespace, body)


@pytest.mark.proves(
    "lifecycle.md#time/activedeadlineseconds",
    "dijob.md#spec/activedeadlineseconds",
    "lifecycle.md#checkpoints/activedeadlineseconds-is-over-the-job-is",
)
def test_a_job_past_its_deadline_is_failed(kube_config: KubeConfig, namespace: str) -> None:
    async def body(testbed: Testbed) -> None:
        async with testbed.operator():
            await testbed.submit(job("a", task(), activeDeadlineSeconds=2))
            status = await testbed.phase("a", "Failed")
            assert condition(status, "Failed")["reason"] == "DeadlineExceeded"

            async def is_clean() -> bool:
                return not await testbed.pods("a")

            await testbed.until(is_clean, "the pods to go")

    on_testbed(kube_config, namespace, body)


def test_a_finished_job_is_deleted_when_its_time_to_live_is_over(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
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

    on_testbed(kube_config, namespace, body)
