"""The definition of AggregatorConfigs, and the one that comes with the installation."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, CRDS
from di_operator.cluster.default_aggregator import DefaultAggregator
from di_operator.process.clock import SystemClock
from tests.integration.conftest import definition, install_crd
from tests.unit.api.jobs import template
from tests.waiting import wait_until_async

NAME = "aggregator-config"
DEFINITION: dict[str, Any] = definition("aggregatorconfigs-crd")


async def forget(client: KubeClient) -> None:
    """Have the API server not know the kind."""
    name = DEFINITION["metadata"]["name"]

    async def is_gone() -> bool:
        try:
            await client.delete(CRDS, name)
        except NotFound:
            return True
        return False

    await wait_until_async(is_gone, what=f"the end of {name}")


@pytest.mark.proves("operations.md#older-versions-and-aggregators")
def test_the_operator_waits_for_the_definition_and_leaves_others_changes(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def scenario() -> None:
        async with KubeClient(config=kube_config) as client:
            keeper = DefaultAggregator(
                client, namespace=namespace, name=NAME, template=template(), clock=SystemClock()
            )
            await forget(client)
            keeping = asyncio.ensure_future(keeper.run())
            await install_crd(kube_config, DEFINITION)

            async def made() -> bool:
                with contextlib.suppress(NotFound):
                    found = await client.get(AGGREGATOR_CONFIGS, NAME, namespace)
                    return bool(found["spec"]["aggregator"]["template"] == template())
                return False

            await wait_until_async(made, what="the AggregatorConfig")
            keeping.cancel()

            # The other version shows the same, and takes only what a pod can be made from.
            newer = replace(AGGREGATOR_CONFIGS, version="v1alpha2")
            found = await client.get(newer, NAME, namespace)
            assert found["spec"]["aggregator"]["template"] == template()
            change = {"image": "mine", "name": template()["spec"]["containers"][0]["name"]}
            mine = {"spec": {"aggregator": {"template": {"spec": {"containers": [change]}}}}}
            await client.patch(newer, NAME, mine, namespace, field_manager="somebody")
            with capture_logs() as lines:
                keeping = asyncio.ensure_future(keeper.run())
                await wait_until_async(lambda: lines, what="the operator to apply it again")
                keeping.cancel()
            assert "left as it is" in lines[0]["event"]
            found = await client.get(newer, NAME, namespace)
            containers = found["spec"]["aggregator"]["template"]["spec"]["containers"]
            assert containers[0]["image"] == "mine"

            containers.clear()
            empty = {"spec": found["spec"]}
            with pytest.raises(ApiError) as refused:
                await client.patch(newer, NAME, empty, namespace)
            assert "spec.aggregator.template.spec.containers" in refused.value.message

    asyncio.run(scenario())
