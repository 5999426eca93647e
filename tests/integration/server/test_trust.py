"""Pods trust di-server whatever happens to its certificates: operator, manager and server."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from di_api.kube.config import KubeConfig
from di_api.kube.errors import ApiError
from di_api.kube.resources import SECRETS
from di_api.names import ANNOTATION_SERVER_CA
from di_certs.authority import Authority, is_issued_by
from di_operator.certificate_plan import CertificateSettings, Leaf, secret_value
from di_operator.certificates import CertificateManager
from di_operator.clock import SystemClock
from tests.integration.admission.test_certificates import running
from tests.integration.conftest import ApiServer
from tests.integration.di_server import ServerProcess, running_server
from tests.integration.operator_testbed import Object, Testbed, job, on_testbed, task
from tests.integration.server.test_tls import DAY, HOST, asking, is_served, new_authority, replace
from tests.waiting import wait_until_async

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("crd")]
SECRET = "di-server-tls"
AUTHORITY = f"{SECRET}-ca"


def test_a_release_that_was_away_for_long_and_lost_its_authority_fails_no_request(
    api_server: ApiServer, kube_config: KubeConfig, namespace: str, tmp_path: Path
) -> None:
    settings = CertificateSettings(
        namespace=namespace,
        authority_secret=AUTHORITY,
        leaves=(Leaf(secret=SECRET, service="di-server", for_pods=True, extra_hosts=(HOST,)),),
        configuration=None,
        spread=timedelta(seconds=2),
        overlap=timedelta(seconds=4),
    )
    certificate, bundle = tmp_path / "tls.crt", tmp_path / "ca.crt"

    async def scenario(testbed: Testbed, server: ServerProcess) -> None:
        old = new_authority("old")
        await leave_expired(testbed, old)
        manager = CertificateManager(testbed.client, settings=settings, clock=SystemClock())
        async with (
            running(manager.run(), project(testbed, tmp_path)),
            testbed.operator(server_ca_secret=SECRET),
        ):
            await testbed.submit(job("x", task("learner"), task("collector", 2)))
            await testbed.phase("x", "Running")
            await are_told(testbed, old.certificate_pem)
            await wait_until_async(lambda: is_ready(server), what="a good certificate")
            before = await uids(testbed)
            with asking(f"{server.encrypted_url}/healthz", bundle) as answers:
                await testbed.client.delete(SECRETS, AUTHORITY, namespace)
                await wait_until_async(
                    lambda: not is_issued_by(certificate.read_bytes(), old.certificate_pem),
                    what="a certificate of another authority",
                )
                new = secret_value(
                    await testbed.client.get(SECRETS, AUTHORITY, namespace), "ca.crt"
                )
                assert is_issued_by(certificate.read_bytes(), new)
                await are_told(testbed, new)
                reached = len(answers) + 20
                await wait_until_async(lambda: len(answers) > reached, what="answers")
            assert await asyncio.to_thread(is_served, server, tmp_path)
            # Nothing was restarted for it, and nobody is told of it as of an edit by hand.
            assert await uids(testbed) == before
            assert "MetadataRestored" not in {e["reason"] for e in await testbed.events("x")}

    # Without a certificate it is alive and not ready.
    with running_server(
        tmp_path, api_server.kubeconfig, certificates=tmp_path, probe="healthz"
    ) as server:
        on_testbed(kube_config, namespace, lambda testbed: scenario(testbed, server))


async def is_ready(server: ServerProcess) -> bool:
    answer = await asyncio.to_thread(requests.get, f"{server.url}/readyz", timeout=60)
    return answer.status_code == 200


async def leave_expired(testbed: Testbed, authority: Authority) -> None:
    """What is found after a long time: an authority, and a certificate that has expired."""
    pair = authority.issue(
        "x", now=datetime.now(UTC) - 2 * DAY, lifetime=DAY, hosts=[HOST], server=True
    )
    bundle = {"ca.crt": authority.certificate_pem}
    for name, values in (
        (AUTHORITY, {**bundle, "ca.key": authority.private_key_pem}),
        (SECRET, {**bundle, "tls.crt": pair.certificate_pem, "tls.key": pair.private_key_pem}),
    ):
        data = {key: base64.b64encode(value).decode() for key, value in values.items()}
        body: Object = {"metadata": {"name": name}, "data": data}
        await testbed.client.create(SECRETS, body, testbed.namespace)


async def project(testbed: Testbed, folder: Path) -> None:
    """Bring the Secret into the server, and the annotation into a pod, as the kubelets do."""
    while True:
        with suppress(ApiError):
            secret = await testbed.client.get(SECRETS, SECRET, testbed.namespace)
            for name in ("tls.key", "tls.crt"):
                bring(folder / name, secret_value(secret, name))
            if pod := (await testbed.pods("x")).get("x-learner-0"):
                told = pod["metadata"]["annotations"][ANNOTATION_SERVER_CA]
                bring(folder / "ca.crt", told.encode())
        await asyncio.sleep(0.1)


def bring(path: Path, value: bytes) -> None:
    if not path.exists() or path.read_bytes() != value:
        replace(path, value)


async def are_told(testbed: Testbed, authority: bytes) -> None:
    """Wait until all pods trust this authority and no other."""

    async def is_so() -> bool:
        pods = (await testbed.pods("x")).values()
        told = {pod["metadata"]["annotations"][ANNOTATION_SERVER_CA] for pod in pods}
        return told == {authority.decode()}

    await wait_until_async(is_so, what="the pods to be told")


async def uids(testbed: Testbed) -> set[str]:
    return {pod["metadata"]["uid"] for pod in (await testbed.pods("x")).values()}
