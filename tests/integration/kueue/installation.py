"""Kueue's kinds and webhooks in an API server, and queues for the time of a test."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, NotFound
from di_kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, WORKLOADS
from tests.integration.conftest import api_server_with_crd, install_crd
from tests.integration.kueue.kinds import (
    BY_KIND,
    CLUSTER_QUEUES,
    Object,
    cluster_queue,
    condition,
)
from tests.integration.kueue.process import KueueProcess, kueue_process
from tests.waiting import wait_until_async

_WEBHOOKS = "kueue"
_FINALIZER = "kueue.x-k8s.io/resource-in-use"
"""Its webhook gives it to every ClusterQueue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueServer:
    """An API server that has Kueue's kinds and webhooks, and the process that serves them."""

    cluster: Cluster
    config: KubeConfig
    kueue: KueueProcess


@contextmanager
def kueue_api_server(name: str, folder: Path) -> Iterator[KueueServer]:
    """An API server with the CRD, in a cluster that is called after `name`, and Kueue beside it,
    whose log is in `folder`."""
    with (
        api_server_with_crd(name) as (cluster, config),
        kueue_process(
            binary=cluster.binary("kueue"),
            manifests=cluster.manifests("kueue"),
            kubeconfig=Path(cluster.kubeconfig),
            host=cluster.host_address,
            folder=folder,
        ) as kueue,
    ):
        register(config, kueue)
        yield KueueServer(cluster=cluster, config=config, kueue=kueue)


def register(config: KubeConfig, kueue: KueueProcess) -> None:
    """Have the API server serve Kueue's kinds and call it, and start it."""
    asyncio.run(_register(config, kueue))


async def _register(config: KubeConfig, kueue: KueueProcess) -> None:
    await asyncio.gather(*(install_crd(config, crd) for crd in kueue.crds()))
    async with KubeClient(config=config) as client:
        await asyncio.to_thread(kueue.start)
        for body in kueue.webhook_configurations(_WEBHOOKS):
            mutates = body["kind"] == "MutatingWebhookConfiguration"
            await client.create(MUTATING_WEBHOOKS if mutates else VALIDATING_WEBHOOKS, body)
        # The API server takes up webhooks a moment after they are written.
        name = f"probe-{secrets.token_hex(3)}"

        async def is_called() -> bool:
            made = await client.create(CLUSTER_QUEUES, cluster_queue(name, {"none": {"cpu": "0"}}))
            await client.delete(CLUSTER_QUEUES, name)
            return _FINALIZER in made["metadata"].get("finalizers", ())

        await wait_until_async(is_called, what="Kueue's webhooks to be called")


@asynccontextmanager
async def installed(client: KubeClient, *bodies: Object) -> AsyncIterator[None]:
    """Objects of Kueue that are there while the block runs, and queues active before it."""
    for body in bodies:
        await client.create(BY_KIND[body["kind"]], body)
    try:
        for body in bodies:
            if body["kind"] in ("ClusterQueue", "LocalQueue"):
                await until_answered(client, body)
        yield
    finally:
        for body in reversed(bodies):
            with suppress(NotFound):
                await client.delete(
                    BY_KIND[body["kind"]],
                    body["metadata"]["name"],
                    body["metadata"].get("namespace"),
                )


async def until_answered(client: KubeClient, queue: Object) -> None:
    """Wait until Kueue has said whether a queue is active."""

    async def is_told() -> bool:
        found = await client.get(
            BY_KIND[queue["kind"]],
            queue["metadata"]["name"],
            queue["metadata"].get("namespace"),
        )
        told = condition(found, "Active")
        return bool(told) and found["metadata"]["generation"] == told["observedGeneration"]

    await wait_until_async(is_told, what=f"Kueue to see {queue['metadata']['name']}")


async def workloads(client: KubeClient, namespace: str) -> dict[str, Object]:
    """Those of a namespace, by name."""
    found, _ = await client.list(WORKLOADS, namespace)
    return {each["metadata"]["name"]: each for each in found}


async def forget_workloads(client: KubeClient, namespace: str) -> None:
    """Delete a namespace's Workloads, whoever holds them: their queues can go then."""
    for name in await workloads(client, namespace):
        with suppress(ApiError):
            await client.patch(WORKLOADS, name, {"metadata": {"finalizers": None}}, namespace)
            await client.delete(WORKLOADS, name, namespace)
