"""Releases that are to look after the same jobs: one does, the others say why they do not."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.errors import NotFound
from di_api.kube.resources import LEASES, Resource
from di_api.names import GROUP
from di_operator.claim import ClaimTiming
from tests.integration.conftest import fresh_namespace
from tests.integration.operator_field import Field, Operator, job, on_field, task

pytestmark = pytest.mark.usefixtures("crd")

# Longer than the API server is ever silent on a busy machine.
TIMING = ClaimTiming(duration=10.0, renew_period=1.0, retry_period=0.5)


CLUSTER_ROLES, BINDINGS = (
    Resource(
        group="rbac.authorization.k8s.io",
        version="v1",
        plural=f"{kind.lower()}s",
        kind=kind,
        namespaced=False,
    )
    for kind in ("ClusterRole", "ClusterRoleBinding")
)


@asynccontextmanager
async def may_look_after_all(field: Field) -> AsyncIterator[None]:
    """What the chart gives a release for all namespaces, as far as others look at it."""
    name = {"metadata": {"name": field.namespace}}
    rule = {"apiGroups": [GROUP], "resources": ["dijobs/status"], "verbs": ["patch"]}
    group = BINDINGS.group
    role = {"apiGroup": group, "kind": "ClusterRole", "name": field.namespace}
    account = {"kind": "ServiceAccount", "name": "di-operator", "namespace": field.namespace}
    await field.client.create(CLUSTER_ROLES, name | {"rules": [rule]})
    await field.client.create(BINDINGS, name | {"roleRef": role, "subjects": [account]})
    try:
        yield
    finally:
        await field.client.delete(BINDINGS, field.namespace)
        await field.client.delete(CLUSTER_ROLES, field.namespace)


async def unready(operator: Operator) -> str:
    """What /readyz says against the replica, empty if it is ready."""

    def ask() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/readyz", timeout=15):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode()

    return await asyncio.to_thread(ask)


def test_another_release_does_nothing_until_the_first_is_gone(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(field: Field) -> None:
        def refused(replica: Operator) -> Callable[[], Awaitable[bool]]:
            async def check() -> bool:
                return f"the operator in namespace {namespace} " in await unready(replica)

            return check

        def ready(replica: Operator) -> Callable[[], Awaitable[bool]]:
            async def check() -> bool:
                return await unready(replica) == ""

            return check

        release: dict[str, Any] = {"claim_timing": TIMING, "namespace": other}
        async with AsyncExitStack() as stack:
            async with (
                may_look_after_all(field),
                field.operator(claim_timing=TIMING, watch_namespace=None) as first,
            ):
                await field.until(ready(first), "the first release to be ready")
                async with field.operator("two", **release) as same:
                    await field.until(refused(same), "a release for the namespace to be refused")
                everywhere = await stack.enter_async_context(
                    field.operator("three", watch_namespace=None, **release)
                )
                await field.until(refused(everywhere), "one for all namespaces to be refused")
                await field.submit(job("a", task()))
                await field.phase("a", "Running")
                with pytest.raises(NotFound):
                    await field.client.get(LEASES, "di-operator", other)
            await field.submit(job("b", task()))
            await field.until(ready(everywhere), "the release that is left to take over")
            await field.phase("b", "Running")
            assert field.created == {"a-work-0": 1, "b-work-0": 1}

    with fresh_namespace(kube_config) as other:
        on_field(kube_config, namespace, body)
