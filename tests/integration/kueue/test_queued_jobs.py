"""Jobs in queues of Kueue, with operator and webhook: what has quota runs, and nothing else."""

from __future__ import annotations

import pytest

from di_api.names import ANNOTATION_SUSPENDED_BY, SUSPENDED_BY_QUEUE
from di_kube.config import KubeConfig
from tests.integration.kueue.bed import ALL, Bed, on_bed, queued_job
from tests.integration.kueue.kinds import LOCAL_QUEUES, local_queue
from tests.integration.operator_testbed import condition

pytestmark = pytest.mark.usefixtures("admission")


@pytest.mark.proves(
    "teams.md#feature-by-feature/queues",
    "teams.md#feature-by-feature/gang",
    "teams.md#feature-by-feature/elastic-jobs",
)
def test_a_job_is_suspended_at_creation_then_its_core_runs_and_extras_as_quota_comes_and_goes(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="3"):
            # The operator is away.
            await bed.submit(queued_job("a", "team", core=2, extras=3))
            made = await bed.testbed.job("a")
            assert made["spec"]["suspend"] is True
            by = made["metadata"]["annotations"][ANNOTATION_SUSPENDED_BY]
            assert by == SUSPENDED_BY_QUEUE
            assert await bed.running() == {}
            async with bed.testbed.operator():
                await bed.until_running(a=3)
                assert "a-core" in await bed.admitted()
                await bed.testbed.phase("a", "Running")
                bed.usage.assert_held(ALL, cpu="3")
                await bed.set_quota("team", "4")
                await bed.until_running(a=4)
                bed.usage.assert_held(ALL, cpu="4")
                await bed.set_quota("team", "9")
                await bed.until_running(a=5)
        bed.usage.assert_held(ALL, cpu="5")

    on_bed(kube_config, namespace, body)


@pytest.mark.proves("teams.md#feature-by-feature/preemption")
def test_extras_go_before_cores_one_at_a_time_and_what_was_evicted_comes_back(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        slow = {"stop-after": "0.3"}
        async with bed.with_queues(team="3"), bed.testbed.operator():
            await bed.submit(queued_job("a", "team", extras=2, notes=slow))
            await bed.until_running(a=3)
            await bed.submit(queued_job("b", "team", notes=slow))
            await bed.until_running(a=2, b=1)
            await bed.submit(queued_job("c", "team", priority="high", notes=slow))
            await bed.until_running(a=1, b=1, c=1)
            assert {"a-core", "b-core", "c-core"} == await bed.admitted()
            # No extra is left: a core of less priority goes, and its job waits in the queue.
            await bed.submit(queued_job("d", "team", core=2, priority="high", notes=slow))
            await bed.until_running(c=1, d=2)
            for name in ("a", "b"):
                await bed.until_waiting(name, "")
                assert (await bed.testbed.job(name))["spec"]["suspend"] is True
            await bed.testbed.delete("d")
            await bed.testbed.delete("c")
            await bed.until_running(a=2, b=1)
            for name in ("a", "b"):
                assert (await bed.testbed.phase(name, "Running"))["restarts"] == 0

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="3")


@pytest.mark.proves(
    "teams.md#feature-by-feature/borrowing",
    "teams.md#feature-by-feature/guarantee",
    "teams.md#feature-by-feature/reclaim",
)
def test_a_cohort_lends_and_takes_back_from_extras_while_cores_run_on(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        slow = {"stop-after": "0.3"}
        async with bed.with_queues(cohort=True, one="2", two="2"), bed.testbed.operator():
            await bed.submit(queued_job("a", "one", extras=5, notes=slow))
            await bed.until_running(a=4)
            core = (await bed.testbed.pods("a"))["a-work-0"]["metadata"]["uid"]
            await bed.submit(queued_job("b", "two", extras=1, notes=slow))
            await bed.until_running(a=2, b=2)
            bed.usage.assert_held("two", cpu="2")
            assert (await bed.testbed.pods("a"))["a-work-0"]["metadata"]["uid"] == core
            await bed.finish("b")
            await bed.until_running(a=4)
            assert (await bed.testbed.pods("a"))["a-work-0"]["metadata"]["uid"] == core

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="4")


def test_a_stopped_queue_takes_no_jobs_and_a_drained_one_gives_its_own_back(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="4"), bed.testbed.operator():
            queue = bed.name_of("team")
            await bed.submit(queued_job("a", "team", extras=1))
            await bed.until_running(a=2)
            await bed.change("ClusterQueue", queue, stopPolicy="Hold")
            await bed.submit(queued_job("b", "team"))
            await bed.until_waiting("b", "inactive")
            await bed.until_running(a=2)
            await bed.change("ClusterQueue", queue, stopPolicy="HoldAndDrain")
            await bed.until_waiting("a", "")
            await bed.until_running()
            await bed.change("ClusterQueue", queue, stopPolicy="None")
            await bed.until_running(a=2, b=1)
            # The LocalQueue has a policy of its own.
            await bed.change("LocalQueue", "team", stopPolicy="HoldAndDrain")
            await bed.until_running()
            await bed.change("LocalQueue", "team", stopPolicy="None")
            await bed.until_running(a=2, b=1)

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="4")


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-stays-pending")
def test_a_job_waits_for_a_queue_that_is_not_there_and_runs_on_where_one_was_deleted(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="2"), bed.testbed.operator():
            await bed.submit(queued_job("a", "other"))
            await bed.until_waiting("a", "LocalQueue other doesn't exist")
            status = await bed.testbed.phase("a", "Pending")
            assert condition(status, "Pending")["reason"] == "JobQueued"
            other = local_queue("other", bed.name_of("team"), namespace)
            await bed.testbed.client.create(LOCAL_QUEUES, other)
            await bed.until_running(a=1)
            await bed.testbed.client.delete(LOCAL_QUEUES, "other", namespace)
            await bed.submit(queued_job("b", "other"))
            await bed.until_waiting("b", "LocalQueue other doesn't exist")
            await bed.until_running(a=1)

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="1")


def test_a_job_that_its_user_suspends_gives_its_quota_back_and_queues_anew(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="2"), bed.testbed.operator():
            await bed.submit(queued_job("a", "team", extras=1, notes={"stop-after": "0.3"}))
            await bed.until_running(a=2)
            await bed.submit(queued_job("b", "team", core=2))
            await bed.until_waiting("b", "insufficient unused quota")
            await bed.testbed.patch("a", {"suspend": True})
            await bed.until_running(b=2)
            assert {each for each in await bed.workloads() if each.startswith("a-")} == set()
            await bed.testbed.patch("a", {"suspend": False})
            await bed.until_waiting("a", "insufficient unused quota")
            await bed.testbed.delete("b")
            await bed.until_running(a=2)

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="2")
