"""The certificate manager against a real API server, with the real webhook behind it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from di_api.admission_rules import ADMISSION_RULES
from di_api.crd.conversion import with_conversion
from di_certs.authority import is_issued_by
from di_certs.inspection import split_certificates
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, NotFound
from di_kube.resources import (
    CONFIGMAPS,
    CRDS,
    DIJOBS,
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from di_kube.wire import JSON_PATCH
from di_operator.certificates.manager import CertificateManager
from di_operator.certificates.rotation import CertificateSettings, Leaf
from di_operator.process.clock import SystemClock
from tests.integration.conftest import (
    ApiServer,
    definition,
    install_crd,
    withdraw_conversion,
)
from tests.integration.webhook_process import (
    WebhookProcess,
    as_rendered,
    client_config,
    configurations,
    webhook_process,
)
from tests.unit.webhook.reviews import job
from tests.waiting import wait_until_async

pytestmark = pytest.mark.usefixtures("crd")

SECRET, SERVER_SECRET = "di-webhook-tls", "di-server-tls"
ADMISSION = "di-webhook-admission"
ROTATIONS = 3
SPREAD, OVERLAP = timedelta(minutes=1), timedelta(minutes=2)


class ForwardClock(SystemClock):
    """The machine's clocks, ten hours behind, which a test puts forward.

    They never pass the machine's: a certificate would not be valid yet.
    """

    def __init__(self) -> None:
        self._behind = timedelta(hours=10)

    @override
    def now(self) -> datetime:
        return super().now() - self._behind

    @override
    def monotonic(self) -> float:
        return super().monotonic() - self._behind.total_seconds()

    @override
    async def sleep(self, seconds: float) -> None:
        """Sleep half a second at most: the clock may be put forward meanwhile."""
        await asyncio.sleep(min(seconds, 0.5))

    def forward(self, time: timedelta) -> None:
        """Let that much time pass."""
        self._behind -= time
        assert self._behind >= timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A client, the configurations of one namespace, and the webhook they call."""

    client: KubeClient
    namespace: str
    webhook: WebhookProcess
    settings: CertificateSettings
    clock: ForwardClock = field(default_factory=ForwardClock)

    def manager(self) -> CertificateManager:
        return CertificateManager(self.client, settings=self.settings, clock=self.clock)

    async def secret(self, name: str = SECRET) -> dict[str, bytes]:
        """The decoded values, empty for a Secret that does not exist."""
        try:
            body = await self.client.get(SECRETS, name, self.namespace)
        except NotFound:
            return {}
        return {key: base64.b64decode(value) for key, value in body["data"].items()}

    async def trusted(self) -> list[list[bytes]]:
        """The authorities of each webhook."""
        return [
            split_certificates(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))
            for webhook in await self.webhooks()
        ]

    async def webhooks(self) -> list[dict[str, Any]]:
        """The entries of both configurations."""
        return [
            webhook
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            for webhook in (await self.client.get(resource, self.namespace))["webhooks"]
        ]

    async def confirmed(self) -> str:
        """The authority in the ConfigMap that the webhook's pods wait for, empty if none."""
        body = await self.client.get(CONFIGMAPS, ADMISSION, self.namespace)
        return str((body.get("data") or {}).get("ca.crt", ""))

    async def is_confirmed(self) -> bool:
        """Whether the configurations have rules, and the ConfigMap what they trust."""
        confirmed = split_certificates((await self.confirmed()).encode())
        return (
            bool(confirmed)
            and all(bundle == confirmed for bundle in await self.trusted())
            and all(each.get("rules") == ADMISSION_RULES for each in await self.webhooks())
        )

    async def is_in_order(self) -> bool:
        """Whether what is served is trusted everywhere."""
        serving = (await self.secret()).get("tls.crt", b"")
        server = await self.secret(SERVER_SECRET)
        told = split_certificates(server.get("ca.crt", b""))
        return any(is_issued_by(server["tls.crt"], each) for each in told) and all(
            any(is_issued_by(serving, authority) for authority in bundle)
            for bundle in await self.trusted()
        )

    async def served(self) -> bytes:
        """The certificate that the webhook has loaded."""
        address = (self.webhook.host, self.webhook.port)
        found = await asyncio.to_thread(ssl.get_server_certificate, address, timeout=60)
        return found.encode()

    async def project(self) -> None:
        """Bring the Secret into the webhook's folder for ever, as the kubelet does in a pod."""
        while True:
            secret = await self.secret()
            for key in ("tls.key", "tls.crt"):
                path = self.webhook.certificates / key
                if key in secret and (not path.exists() or path.read_bytes() != secret[key]):
                    temporary = path.with_suffix(".new")
                    temporary.write_bytes(secret[key])
                    temporary.replace(path)
            await asyncio.sleep(0.1)


@asynccontextmanager
async def world(
    config: KubeConfig, api_server: ApiServer, namespace: str, folder: Path, **settings: Any
) -> AsyncIterator[World]:
    host = api_server.host_address
    with webhook_process(folder, host, with_certificate=False) as webhook:
        async with KubeClient(config=config) as client:
            mutating, validating = configurations(webhook, namespace, namespace, ca_bundle=b"")
            await client.create(MUTATING_WEBHOOKS, as_rendered(mutating))
            await client.create(VALIDATING_WEBHOOKS, as_rendered(validating))
            await client.create(CONFIGMAPS, {"metadata": {"name": ADMISSION}}, namespace)
            try:
                yield World(
                    client=client,
                    namespace=namespace,
                    webhook=webhook,
                    settings=CertificateSettings(
                        namespace=namespace,
                        authority_secret=f"{SECRET}-ca",
                        leaves=(
                            Leaf(secret=SECRET, service="di-webhook", extra_hosts=(host,)),
                            Leaf(secret=SERVER_SECRET, service="di-server", for_pods=True),
                        ),
                        configuration=namespace,
                        admission=ADMISSION,
                        **settings,
                    ),
                )
            finally:
                await client.delete(MUTATING_WEBHOOKS, namespace)
                await client.delete(VALIDATING_WEBHOOKS, namespace)


@asynccontextmanager
async def running(*works: Any) -> AsyncIterator[None]:
    """Run coroutines until the block ends; one that fails fails the block."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def test_from_nothing_jobs_are_admitted_and_what_is_deleted_comes_back(
    kube_config: KubeConfig, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with (
            world(kube_config, api_server, namespace, tmp_path) as cluster,
            running(cluster.manager().run(), cluster.project()),
        ):
            await wait_until_async(cluster.is_in_order, what="the first certificates")
            await wait_until_async(lambda: cluster.webhook.ready() == 200, what="readiness")
            await create_job(cluster, "first")

            await cluster.client.delete(SECRETS, SECRET, namespace)
            await wait_until_async(cluster.secret, what="the deleted Secret to come back")

            empty = [
                {"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"},
            ]
            await cluster.client.patch(
                VALIDATING_WEBHOOKS, namespace, empty, content_type=JSON_PATCH
            )
            await wait_until_async(cluster.is_in_order, what="the emptied caBundle to come back")
            # The new leaf reaches the webhook, and the API server the bundle, a moment later.
            await wait_until_async(lambda: admits(cluster, "second"), what="admission")

    asyncio.run(scenario())


def test_rules_arrive_with_the_authority_and_are_confirmed_last(
    kube_config: KubeConfig, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with world(kube_config, api_server, namespace, tmp_path) as cluster:
            client, seen = cluster.client, list[tuple[bool, bool]]()

            async def record() -> None:
                """Whether each version of the configuration has rules and an authority."""
                selector = f"metadata.name={namespace}"
                _, version = await client.list(VALIDATING_WEBHOOKS, field_selector=selector)
                async for _, body in client.watch(
                    VALIDATING_WEBHOOKS,
                    resource_version=version,
                    field_selector=selector,
                    timeout_seconds=60,
                ):
                    for webhook in body.get("webhooks", []):
                        trusts = bool(webhook["clientConfig"].get("caBundle"))
                        seen.append((bool(webhook.get("rules")), trusts))

            # Nothing is reviewed: no webhook is trusted or runs.
            await create_job(cluster, "before")
            async with running(record(), cluster.manager().run(), cluster.project()):
                await wait_until_async(cluster.is_confirmed, what="confirmation")
                assert await cluster.is_in_order()
                await wait_until_async(lambda: bool(seen), what="the watch")
                assert set(seen) == {(True, True)}
                await wait_until_async(lambda: admits(cluster, "after"), what="admission")

                for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                    removed = [{"op": "remove", "path": "/webhooks/0/rules"}]
                    await client.patch(resource, namespace, removed, content_type=JSON_PATCH)
                await client.patch(CONFIGMAPS, ADMISSION, {"data": None}, namespace)
                await wait_until_async(cluster.is_confirmed, what="rules and confirmation")

                # As after an uninstall and a reinstall: the Secrets stay, the ConfigMap is new.
                await client.delete(CONFIGMAPS, ADMISSION, namespace)
                await client.create(CONFIGMAPS, {"metadata": {"name": ADMISSION}}, namespace)
                await wait_until_async(cluster.is_confirmed, what="a new ConfigMap's data")

    asyncio.run(scenario())


@pytest.mark.proves("operations.md#certificates/auto")
def test_the_authority_is_rotated_under_load_without_a_failed_admission(
    kube_config: KubeConfig, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        times = {"spread": SPREAD, "overlap": OVERLAP}
        async with (
            world(kube_config, api_server, namespace, tmp_path, **times) as cluster,
            running(cluster.manager().run(), cluster.project()),
        ):
            await wait_until_async(cluster.is_in_order, what="the first certificates")
            await wait_until_async(lambda: admits(cluster, "probe"), what="admission")
            admitted = 0

            async def load(worker: int) -> None:
                nonlocal admitted
                for number in range(1_000_000):
                    name = f"load-{worker}-{number}"
                    await create_job(cluster, name)
                    await cluster.client.delete(DIJOBS, name, namespace)
                    admitted += 1

            async with running(*(load(worker) for worker in range(2))):
                for _ in range(ROTATIONS):
                    await rotate(cluster)
            assert admitted > 10 * ROTATIONS
            events = [line["event"] for line in cluster.webhook.log_lines()]
            assert events.count("serving certificate loaded") >= ROTATIONS

    asyncio.run(scenario())


async def rotate(cluster: World) -> None:
    """Lose the authority, and wait until its successor alone is trusted."""
    name = cluster.settings.authority_secret
    old = (await cluster.secret(name))["ca.crt"]
    await cluster.client.delete(SECRETS, name, cluster.namespace)

    async def overlaps() -> bool:
        new = (await cluster.secret(name)).get("ca.crt", old)
        return new != old and all(bundle == [new, old] for bundle in await cluster.trusted())

    async def is_over() -> bool:
        new = (await cluster.secret(name))["ca.crt"]
        return all(bundle == [new] for bundle in await cluster.trusted())

    await wait_until_async(overlaps, what="old and new authority to be trusted")
    new = (await cluster.secret(name))["ca.crt"]

    async def is_issued(secret: str) -> bool:
        return is_issued_by((await cluster.secret(secret))["tls.crt"], new)

    async def is_issued_when_spread() -> bool:
        # The time counts from a read of the manager's, which may come after this one.
        cluster.clock.forward(SPREAD / 4)
        return await is_issued(SERVER_SECRET)

    async def is_loaded() -> bool:
        return is_issued_by(await cluster.served(), new)

    await wait_until_async(lambda: is_issued(SECRET), what="the webhook's new certificate")
    await wait_until_async(is_issued_when_spread, what="the server's new certificate", every=0.5)
    await wait_until_async(is_loaded, what="the webhook to load its new certificate")
    cluster.clock.forward(OVERLAP)
    await wait_until_async(is_over, what="the old authority to be dropped")


@pytest.mark.extended
@pytest.mark.parametrize("writes", range(6))
def test_a_manager_that_dies_after_any_write_is_continued_by_another(
    kube_config: KubeConfig,
    api_server: ApiServer,
    namespace: str,
    tmp_path: Path,
    writes: int,
) -> None:
    class Died(Exception):
        pass

    async def scenario() -> None:
        async with world(kube_config, api_server, namespace, tmp_path) as cluster:
            left = writes
            with pytest.MonkeyPatch.context() as patched:
                for verb in ("create", "patch", "replace"):
                    original = getattr(KubeClient, verb)

                    async def counted(*args: Any, _write: Any = original, **kwargs: Any) -> Any:
                        nonlocal left
                        if left == 0:
                            raise Died
                        left -= 1
                        return await _write(*args, **kwargs)

                    patched.setattr(KubeClient, verb, counted)
                with contextlib.suppress(Died):
                    await settle(cluster.manager(), cluster)
            await settle(cluster.manager(), cluster)
            assert await cluster.is_in_order()
            assert all(len(bundle) == 1 for bundle in await cluster.trusted())

    asyncio.run(scenario())


async def settle(manager: CertificateManager, cluster: World) -> None:
    async def is_settled() -> bool:
        await manager.reconcile_once()
        return await cluster.is_in_order() and await cluster.is_confirmed()

    await wait_until_async(is_settled, what="the certificates to be in order")


def test_two_managers_at_once_agree(
    kube_config: KubeConfig, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with world(kube_config, api_server, namespace, tmp_path) as cluster:
            first, second = cluster.manager(), cluster.manager()

            async def are_settled() -> bool:
                await asyncio.gather(first.reconcile_once(), second.reconcile_once())
                return await cluster.is_in_order()

            await wait_until_async(are_settled, what="the certificates to be in order")
            assert all(len(bundle) == 1 for bundle in await cluster.trusted())

    asyncio.run(scenario())


async def create_job(cluster: World, name: str) -> None:
    body = job()
    body["metadata"] = {"name": name, "namespace": cluster.namespace}
    await cluster.client.create(DIJOBS, body)


async def admits(cluster: World, name: str) -> bool:
    try:
        await create_job(cluster, name)
    except ApiError as error:
        raise AssertionError(str(error)) from error
    return True


def test_the_older_versions_are_served_once_their_conversion_is_trusted(
    kube_config: KubeConfig, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    plain = definition()
    older = replace(DIJOBS, version="v1alpha1")

    async def scenario() -> None:
        async with world(kube_config, api_server, namespace, tmp_path) as cluster:
            untrusted = client_config(cluster.webhook, "/convert", ca_bundle=b"")
            await install_crd(kube_config, with_conversion(plain, untrusted))
            try:
                async with running(cluster.manager().run(), cluster.project()):
                    await wait_until_async(cluster.is_in_order, what="the certificates")
                    # The webhook loads what it is given a moment later.
                    await wait_until_async(lambda: admits(cluster, "first"), what="admission")

                    async def is_read() -> bool:
                        try:
                            await cluster.client.get(older, "first", namespace)
                        except ApiError:
                            return False
                        return True

                    await wait_until_async(is_read, what="the older versions to be served")
                    definition = await cluster.client.get(CRDS, plain["metadata"]["name"])
                    conversion = definition["spec"]["conversion"]["webhook"]["clientConfig"]
                    trusted = split_certificates(base64.b64decode(conversion["caBundle"]))
                    assert [trusted] == (await cluster.trusted())[:1]

                    # The conversion alone has lost it: healed like the others.
                    path = "/spec/conversion/webhook/clientConfig/caBundle"
                    await cluster.client.patch(
                        CRDS,
                        plain["metadata"]["name"],
                        [{"op": "remove", "path": path}],
                        content_type=JSON_PATCH,
                    )
                    await wait_until_async(is_read, what="the older versions to come back")
            finally:
                await withdraw_conversion(kube_config)

    asyncio.run(scenario())
