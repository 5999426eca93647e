"""The taint of suspect nodes, before a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from typing_extensions import override

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import NODES
from di_operator.cluster.suspect_taints import TAINT, SuspectTaints
from di_operator.process.clock import SystemClock
from tests.waiting import wait_until_async

NAMES = ("suspect-0", "suspect-1", "suspect-2", "suspect-3")
OTHERS = {"key": "example.org/mine", "value": "yes", "effect": "NoExecute"}


class FastClock(SystemClock):
    """A clock whose delays are short."""

    @override
    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


@pytest.mark.proves("lifecycle.md#suspect-nodes")
def test_a_suspect_node_has_a_taint_until_it_is_suspect_no_more(kube_config: KubeConfig) -> None:
    suspects: dict[str, int] = {}

    async def taints(client: KubeClient) -> Mapping[str, list[str]]:
        found = [await client.get(NODES, name) for name in NAMES]
        return {
            node["metadata"]["name"]: [each["key"] for each in node["spec"].get("taints", [])]
            for node in found
        }

    async def scenario(client: KubeClient) -> None:
        for name in NAMES:
            body = {"metadata": {"name": name}, "spec": {"taints": [OTHERS]}}
            await client.create(NODES, {"apiVersion": "v1", "kind": "Node", **body})
        keeper = SuspectTaints(
            client, suspects=lambda: suspects, most_percent=25, clock=FastClock()
        )

        async def has(*tainted: str) -> bool:
            found = await taints(client)
            assert all(OTHERS["key"] in kept for kept in found.values())
            return {name for name, kept in found.items() if TAINT in kept} == {*tainted}

        keeping = asyncio.ensure_future(keeper.run())
        suspects.update({NAMES[1]: 2, NAMES[2]: 3})
        await wait_until_async(lambda: has(NAMES[2]), what="the taint of one of four nodes")
        suspects.clear()
        await wait_until_async(has, what="the end of the taint")
        keeping.cancel()

    async def main() -> None:
        async with KubeClient(config=kube_config) as client:
            try:
                await scenario(client)
            finally:
                for name in NAMES:
                    try:
                        await client.delete(NODES, name)
                    except NotFound:
                        continue

    asyncio.run(main())
