"""Jobs of more pods than there may be, and those whose node lists grow too long."""

from __future__ import annotations

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.errors import Invalid
from di_api.kube.resources import Resource
from tests.integration.operator_testbed import Object, Testbed, condition, job, on_testbed, task

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("crd")]

QUOTAS = Resource(group="", version="v1", plural="resourcequotas", kind="ResourceQuota")


def test_a_job_above_the_bound_is_refused_without_a_webhook_and_harms_nobody(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "20"}}}
        await testbed.client.create(QUOTAS, quota, namespace)

        async def quota_counts() -> bool:
            found = await testbed.client.get(QUOTAS, "pods", namespace)
            return bool((found.get("status") or {}).get("hard"))

        await testbed.until(quota_counts, "the quota to be enforced")
        async with testbed.operator():
            await testbed.submit(job("small", task(replicas=2)))
            with pytest.raises(Invalid, match="a job may have 4096 pods"):
                await testbed.submit(job("huge", task(replicas=100_000)))
            with pytest.raises(Invalid, match="a job may have 4096 pods"):
                await testbed.submit(job("broad", task("a", 4000), task("b", 97)))
            await testbed.phase("small", "Running")
            with pytest.raises(Invalid, match="a job may have 4096 pods"):
                await testbed.patch("small", {"tasks": [task(replicas=100_000)]})

            # The largest there may be costs a few refusals, not four thousand pods.
            await testbed.submit(job("largest", task(replicas=4096)))

            async def waits() -> bool:
                status = await testbed.status("largest")
                if status.get("phase") != "Pending":
                    return False
                return bool(condition(status, "Pending")["reason"] == "QuotaExceeded")

            await testbed.until(waits, "the largest job to wait for quota")
            assert len(await testbed.pods("largest")) <= 18
            status = await testbed.status("small")
            assert (status["phase"], status["readyReplicas"]) == ("Running", 2)

    on_testbed(kube_config, namespace, body)


@pytest.mark.parametrize("change", ["deleted", "given another spec"])
def test_a_large_job_that_changes_while_its_pods_are_made_gets_no_more_of_them(
    change: str, kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async def has_pods() -> bool:
            return len(testbed.created) >= 50

        # The one worker turns to the next job when it is done with this one.
        async with testbed.operator(workers=1):
            await testbed.submit(job("a", task(replicas=1500)))
            await testbed.until(has_pods, "the first pods")
            if change == "deleted":
                await testbed.delete("a")
            else:
                await testbed.patch("a", {"tasks": [task(replicas=1)]})
            await testbed.submit(job("next", task()))
            await testbed.phase("next", "Running")
        made = len(testbed.created)
        assert made < 1500, "it was stopped midway"

    on_testbed(kube_config, namespace, body)


def test_a_running_job_scaled_past_what_its_node_lists_hold_runs_on(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
        async def runs_with(replicas: int) -> bool:
            status = await testbed.status("a")
            seen = status["phase"], status["replicas"], status["readyReplicas"]
            return seen == ("Running", replicas, replicas)

        async def is_stuck() -> bool:
            now = await testbed.status("a")
            if now["phase"] != "Rescheduling":
                return False
            return bool(condition(now, "Rescheduling")["reason"] == "NodeListsTooLong")

        async def uids() -> dict[str, str]:
            pods = await testbed.pods("a")
            return {name: pod["metadata"]["uid"] for name, pod in pods.items()}

        # Names of 4,000 characters: the lists have room for some 130 pods.
        async with testbed.operator(service_domain="d" * 4000):
            await testbed.submit(job("a", task(replicas=105)))
            await testbed.phase("a", "Running")
            before = await uids()
            await testbed.patch("a", {"tasks": [task(replicas=140)]})
            await testbed.until(is_stuck, "the job to say what is in its way")
            assert await uids() == before

            def is_the_warning(event: Object) -> bool:
                return bool(event["reason"] == "NodeListsTooLong" and event["type"] == "Warning")

            async def is_told() -> bool:
                return any(map(is_the_warning, await testbed.events("a")))

            await testbed.until(is_told, "the warning")
            await testbed.patch("a", {"tasks": [task(replicas=106)]})
            await testbed.until(lambda: runs_with(106), "the job to go on with 106 pods")
            after = await uids()
            assert {name: after[name] for name in before} == before
            assert (await testbed.status("a"))["restarts"] == 0

    on_testbed(kube_config, namespace, body)
