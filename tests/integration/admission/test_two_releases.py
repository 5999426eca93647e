"""Releases that are to look after the same jobs: one does, the others say why they do not."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest

from di_api.names import GROUP
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from di_kube.sync import SyncKubeClient
from di_operator.leadership.release_claim import ClaimTiming
from tests.integration.conftest import fresh_namespace
from tests.integration.operator_testbed import Operator, Testbed, job, on_testbed, task
from tests.integration.service_accounts import granted_everywhere
from tests.integration.webhook_process import as_rendered, configurations_calling

pytestmark = pytest.mark.usefixtures("crd")

# Longer than the API server is ever silent on a busy machine.
TIMING = ClaimTiming(duration=10.0, renew_period=1.0, retry_period=0.5)


def may_look_after_all(testbed: Testbed) -> AbstractAsyncContextManager[None]:
    """What the chart gives a release for all namespaces, as far as others look at it."""
    name = testbed.namespace
    rule = {"apiGroups": [GROUP], "resources": ["dijobs/status"], "verbs": ["patch"]}
    return granted_everywhere(testbed.client, name, "di-operator", name, [rule])


async def unready(operator: Operator) -> str:
    """What /readyz says against the replica, empty if it is ready."""

    def ask() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/readyz", timeout=60):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode()

    return await asyncio.to_thread(ask)


async def create_configurations(testbed: Testbed, name: str) -> None:
    """The webhook configurations of a release; they match no namespace, as no webhook runs."""
    bodies = configurations_calling(
        lambda path: {"service": {"namespace": name, "name": "di-webhook", "path": path}},
        name,
        "none",
    )
    for resource, each in zip((MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), bodies, strict=True):
        await testbed.client.create(resource, as_rendered(each))


async def are_published(testbed: Testbed, name: str) -> bool:
    """Whether both configurations have rules and an authority; fails if one has only a part."""
    found = set()
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for webhook in (await testbed.client.get(resource, name))["webhooks"]:
            trusts = "caBundle" in webhook["clientConfig"]
            assert trusts == ("rules" in webhook)
            found.add(trusts)
    return found == {True}


@pytest.mark.proves("operations.md#one-release-for-a-job")
def test_another_release_does_nothing_until_the_first_is_gone(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def body(testbed: Testbed) -> None:
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
                may_look_after_all(testbed),
                testbed.operator(claim_timing=TIMING, watch_namespace=None) as first,
            ):
                await testbed.until(ready(first), "the first release to be ready")
                await create_configurations(testbed, other)
                async with testbed.operator("two", **release) as same:
                    await testbed.until(refused(same), "a release for the namespace to be refused")
                everywhere = await stack.enter_async_context(
                    testbed.operator(
                        "three",
                        watch_namespace=None,
                        authority_secret="di-webhook-tls-ca",
                        webhook_secret="di-webhook-tls",
                        webhook_configuration=other,
                        **release,
                    )
                )
                await testbed.until(refused(everywhere), "one for all namespaces to be refused")
                await testbed.submit(job("a", task()))
                await testbed.phase("a", "Running")
                with pytest.raises(NotFound):
                    await testbed.client.get(LEASES, "di-operator", other)
                # Nor does it have its webhook called, for which it makes no certificate.
                assert not await are_published(testbed, other)
            await testbed.submit(job("b", task()))
            await testbed.until(ready(everywhere), "the release that is left to take over")
            await testbed.phase("b", "Running")
            await testbed.until(
                lambda: are_published(testbed, other), "the rules of its webhook to be published"
            )
            assert testbed.created == {"a-work-0": 1, "b-work-0": 1}

    with fresh_namespace(kube_config) as other:
        try:
            on_testbed(kube_config, namespace, body)
        finally:
            with SyncKubeClient(config=kube_config) as kube:
                for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                    kube.delete(resource, other)
