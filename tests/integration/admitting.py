"""The webhook, or the policy, that judges the jobs of a test's namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from di_api import names
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, Invalid, Unavailable
from di_kube.resources import DIJOBS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from tests.integration.conftest import CRD_FILE, patient
from tests.integration.webhook_process import VALIDATING, WebhookProcess, configurations
from tests.waiting import wait_until_async

POLICY_FILE = CRD_FILE.with_name("dijobs-policy.yaml")
POLICIES, POLICY_BINDINGS = (
    Resource(
        group="admissionregistration.k8s.io",
        version="v1",
        plural=plural,
        kind=kind,
        namespaced=False,
    )
    for plural, kind in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    )
)


def manifest(name: str = "cartpole", **spec: Any) -> dict[str, Any]:
    """The least a user has to write."""
    template = {"spec": {"containers": [{"name": "di-container", "image": "demo"}]}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"tasks": [{"type": "learner", "template": template}], **spec},
    }


@contextmanager
def admitting(webhook: WebhookProcess, config: KubeConfig, namespace: str) -> Iterator[None]:
    """Have the API server ask the webhook about jobs of the namespace; it does when this begins."""
    mutating, validating = configurations(webhook, namespace, namespace)

    async def register(client: KubeClient) -> None:
        await client.create(MUTATING_WEBHOOKS, mutating)
        await client.create(VALIDATING_WEBHOOKS, validating)
        # The schema has nothing against this name; its pods' names would be too long.
        name = "p" * 60

        async def refuses() -> bool:
            try:
                await client.create(DIJOBS, manifest(name), namespace)
            except ApiError as error:
                # A webhook that cannot be called is named in the error, too.
                if VALIDATING not in error.message or isinstance(error, Unavailable):
                    raise
                return True
            await client.delete(DIJOBS, name, namespace)
            return False

        async def completes() -> bool:
            made = await client.create(DIJOBS, manifest("probe"), namespace)
            await client.delete(DIJOBS, "probe", namespace)
            return "name" in made["spec"]["tasks"][0]

        await wait_until_async(refuses, what="the API server to call the webhook")
        # It learns of the two kinds of webhooks by a watch each.
        await wait_until_async(completes, what="the API server to call the mutating one")

    async def withdraw(client: KubeClient) -> None:
        await client.delete(MUTATING_WEBHOOKS, namespace)
        await client.delete(VALIDATING_WEBHOOKS, namespace)

    call(config, register)
    yield
    call(config, withdraw)


@contextmanager
def policing(config: KubeConfig, namespace: str) -> Iterator[None]:
    """Have the API server judge jobs of the namespace by the policy; it does when this begins."""
    policy, binding = yaml.safe_load_all(POLICY_FILE.read_text())
    for body in (policy, binding):
        body["metadata"]["name"] = namespace
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding["spec"] |= {"policyName": namespace, "matchResources": {"namespaceSelector": here}}

    async def register(client: KubeClient) -> None:
        await client.create(POLICIES, policy)
        await client.create(POLICY_BINDINGS, binding)
        wrong = manifest("probe")
        wrong["spec"]["tasks"] *= 2

        async def refuses() -> bool:
            try:
                await client.create(DIJOBS, wrong, namespace)
            except Invalid as error:
                if namespace not in error.message:
                    raise
                return True
            await client.delete(DIJOBS, "probe", namespace)
            return False

        await wait_until_async(refuses, what="the API server to judge by the policy")

    async def withdraw(client: KubeClient) -> None:
        await client.delete(POLICY_BINDINGS, namespace)
        await client.delete(POLICIES, namespace)

    call(config, register)
    yield
    call(config, withdraw)


def call(config: KubeConfig, work: Callable[[KubeClient], Awaitable[Any]]) -> Any:
    """Run a coroutine with a client of its own."""

    async def run() -> Any:
        async with patient(config) as client:
            return await work(client)

    return asyncio.run(run())
