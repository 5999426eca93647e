"""What all runs share: one API server, one fake kubelet, and eyes that look past the proxies."""

from __future__ import annotations

import random
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import AlreadyExists, NotFound, Unavailable
from di_kube.resources import DIJOBS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from tests.fakes.kubelet import FakeKubelet
from tests.following import following
from tests.integration.operator_testbed import job, task
from tests.waiting import wait_until_async

Object = dict[str, Any]

CHECKED_NODES = ("n0", "n1", "n2", "n3")
"""Nodes on which stories themselves run pods; no scheduler brings any there."""


_PATIENCE = 120.0


@dataclass(slots=True, kw_only=True)
class Testbed:
    """Shared by runs side by side, each in a namespace of its own.

    Attributes:
        config: the administrator's access to the API server.
        folder: where runs leave their logs.
        created: distinct pods seen, by namespace and name.
    """

    __test__: ClassVar[bool] = False  # no class of tests, whatever its name begins with

    config: KubeConfig
    folder: Path
    client: KubeClient
    kubelet: FakeKubelet
    jobs: WatchCache
    created: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def pods(self) -> WatchCache:
        return self.kubelet.cache

    async def namespace(self, name: str) -> None:
        """Make a namespace in which pods can be created.

        A connection that breaks on a busy machine would otherwise end all runs.
        """

        async def is_made() -> bool:
            try:
                await self.client.create(NAMESPACES, {"metadata": {"name": name}})
            except AlreadyExists:
                pass
            except Unavailable:
                return False
            return True

        async def has_account() -> bool:
            try:
                await self.client.get(SERVICE_ACCOUNTS, "default", name)
            except (NotFound, Unavailable):
                return False
            return True

        await wait_until_async(is_made, what=f"namespace {name}", every=0.05)
        await wait_until_async(has_account, what=f"the account of {name}", every=0.05)


@asynccontextmanager
async def prepared(config: KubeConfig, folder: Path) -> AsyncIterator[Testbed]:
    """Stand on an API server that serves the CRD; leaves nothing running."""
    async with (
        # What is measured are the operators; the testbed itself waits for a busy API server.
        KubeClient(config=config, timeout=_PATIENCE, connect_timeout=_PATIENCE) as client,
        KubeClient(config=config, connections=1, connect_timeout=_PATIENCE) as heart,
        FakeKubelet(client, heart=heart, others=CHECKED_NODES) as kubelet,
    ):
        jobs = WatchCache(client, DIJOBS, clock=time.monotonic, rng=random.Random())
        testbed = Testbed(config=config, folder=folder, client=client, kubelet=kubelet, jobs=jobs)
        kubelet.cache.subscribe(_recorder(testbed))
        async with following(jobs):
            await _collector_knows_jobs(testbed)
            yield testbed


def _recorder(testbed: Testbed) -> Callable[[str, Object], None]:
    def record(kind: str, pod: Object) -> None:
        metadata = pod["metadata"]
        testbed.created[metadata["namespace"], metadata["name"]].add(metadata["uid"])

    return record


async def _collector_knows_jobs(testbed: Testbed) -> None:
    """Wait until deleting a job takes its pods along.

    The garbage collector looks for new resources every half minute; before it has found ours, no
    run could tell an orphan from a pod that is about to go.
    """
    name = f"collector-{secrets.token_hex(3)}"
    await testbed.namespace(name)
    owner = await testbed.client.create(DIJOBS, job("a", task()), name)
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": "a",
        "uid": owner["metadata"]["uid"],
    }
    pod = {
        "metadata": {"name": "a", "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "a", "image": "none"}]},
    }
    await testbed.client.create(PODS, pod, name)
    await testbed.client.delete(DIJOBS, "a", name)
    await wait_until_async(
        lambda: testbed.pods.get(name, "a") is None and testbed.created[name, "a"],
        what="the garbage collector to know DIJobs",
    )
