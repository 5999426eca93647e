"""Kueue ends, the operator ends, somebody takes Workloads away: quota holds, and jobs go on."""

from __future__ import annotations

import asyncio

import pytest

from di_kube.config import KubeConfig
from tests.integration.kueue.bed import ALL, Bed, on_bed, queued_job
from tests.integration.kueue.kinds import COHORTS, Object, cohort, resource_group
from tests.integration.kueue.process import KueueProcess

pytestmark = pytest.mark.usefixtures("admission")
SLOW = {"stop-after": "0.3"}


def test_a_workload_that_somebody_deletes_is_made_anew_once_its_pods_are_gone(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="3"), bed.testbed.operator():
            await bed.submit(queued_job("a", "team", extras=2, notes=SLOW))
            await bed.until_running(a=3)
            pods = await bed.testbed.pods("a")
            for name in ("a-work-x0", "a-core"):
                before = (await bed.workloads())[name]["metadata"]["uid"]
                await bed.delete_workload(name)

                async def is_anew(name: str = name, before: str = before) -> bool:
                    found = (await bed.workloads())[name]["metadata"]["uid"]
                    return bool(found != before)

                await bed.testbed.until(is_anew, f"another {name}")
                await bed.until_running(a=3)
            uids = {pod["metadata"]["uid"] for pod in (await bed.testbed.pods("a")).values()}
            # Without its core the job has no quota for any of its pods.
            assert not uids & {pod["metadata"]["uid"] for pod in pods.values()}

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="3")


def test_jobs_run_on_while_kueue_is_away_and_wait_for_it(
    kube_config: KubeConfig, namespace: str, kueue: KueueProcess
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="3"), bed.testbed.operator():
            await bed.submit(queued_job("a", "team", extras=1))
            await bed.until_running(a=2)
            await asyncio.to_thread(kueue.kill)
            try:
                await bed.submit(queued_job("b", "team"))
                await bed.testbed.until(lambda: bed.is_queued("b"), "b to wait")
                await bed.until_running(a=2)
            finally:
                await asyncio.to_thread(kueue.start)
            await bed.until_running(a=2, b=1)

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="3")


def test_an_operator_that_was_killed_is_followed_by_one_that_goes_on_from_what_is_there(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(bed: Bed) -> None:
        async with bed.with_queues(team="3"):
            async with bed.testbed.operator(leader_elect=False) as first:
                await bed.submit(queued_job("a", "team", extras=2, notes=SLOW))
                await bed.until_running(a=3)
                await bed.submit(queued_job("b", "team", core=2, priority="high", notes=SLOW))
                # Somewhere between the eviction of extras and the end of their pods.
                first.task.cancel()
            async with bed.testbed.operator("two", leader_elect=False):
                await bed.until_running(a=1, b=2)
                await bed.finish("b")
                await bed.until_running(a=3)

    on_bed(kube_config, namespace, body).assert_held(ALL, cpu="3")


@pytest.mark.proves("teams.md#feature-by-feature/weights", "teams.md#feature-by-feature/drf")
def test_shares_of_what_is_borrowed_follow_the_weights(
    kube_config: KubeConfig, namespace: str, kueue: KueueProcess
) -> None:
    def weighted(bed: Bed) -> Object:
        quota = resource_group({bed.flavor: {"cpu": "8"}})
        return cohort(bed.cohort, resourceGroups=[quota])

    async def body(bed: Bed) -> None:
        async with (
            bed.with_queues(cohort=True, one="0", two="0"),
            bed.testbed.operator(),
        ):
            for queue, weight in (("one", "3"), ("two", "1")):
                await bed.change("ClusterQueue", bed.name_of(queue), fairSharing={"weight": weight})
            await bed.testbed.client.create(COHORTS, weighted(bed))
            try:
                await bed.submit(queued_job("b", "two", extras=7, notes=SLOW))
                await bed.until_running(b=8)
                await bed.submit(queued_job("a", "one", extras=7, notes=SLOW))
                await bed.until_running(a=6, b=2)
            finally:
                await bed.testbed.client.delete(COHORTS, bed.cohort)

    sharing = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    with kueue.configured(fairSharing=sharing):
        usage = on_bed(kube_config, namespace, body)
    usage.assert_held(ALL, cpu="8")
