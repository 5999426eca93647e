"""Kueue beside the API server, with Workloads that nobody but these tests writes."""

from __future__ import annotations

import asyncio

import pytest

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import WORKLOADS
from tests.integration.kueue.installation import forget_workloads, installed, workloads
from tests.integration.kueue.kinds import (
    cluster_queue,
    condition,
    is_admitted,
    local_queue,
    resource_flavor,
    workload,
)
from tests.integration.kueue.process import KueueProcess
from tests.waiting import wait_until_async


@pytest.mark.proves("cluster.md#kueue")
def test_kueue_admits_what_fits_goes_on_after_a_restart_and_says_what_waits_for(
    kube_config: KubeConfig, namespace: str, kueue: KueueProcess
) -> None:
    flavor, queue = f"flavor-{namespace}", f"queue-{namespace}"
    queues = [
        resource_flavor(flavor),
        cluster_queue(queue, {flavor: {"cpu": "3"}}),
        local_queue("team", queue, namespace),
    ]

    async def main() -> None:
        async with KubeClient(config=kube_config) as client, installed(client, *queues):

            async def admitted() -> set[str]:
                found = await workloads(client, namespace)
                return {name for name, each in found.items() if is_admitted(each)}

            async def until_admitted(*names: str) -> None:
                async def are() -> bool:
                    return await admitted() == set(names)

                await wait_until_async(are, what=f"{names} to be admitted")

            await client.create(WORKLOADS, workload("first", "team", "1", count=2), namespace)
            await until_admitted("first")
            await client.create(WORKLOADS, workload("second", "team", "2"), namespace)

            async def waits() -> bool:
                found = condition((await workloads(client, namespace))["second"], "QuotaReserved")
                return "insufficient unused quota" in found.get("message", "")

            await wait_until_async(waits, what="Kueue to say what is missing")
            assert await admitted() == {"first"}

            await asyncio.to_thread(kueue.kill)
            await asyncio.to_thread(kueue.start)
            await client.create(WORKLOADS, workload("third", "team", "1"), namespace)
            await until_admitted("first", "third")
            await forget_workloads(client, namespace)

    asyncio.run(main())
