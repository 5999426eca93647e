"""APIs that processes of this machine serve to the API server of a cluster, by APIServices."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from di_certs.authority import Authority
from di_kube.client import KubeClient
from di_kube.errors import NotFound
from di_kube.resources import NAMESPACES, SERVICES, Resource
from tests.failures.sources import shown_log
from tests.waiting import START_SECONDS, STOP_SECONDS, wait_until_async

Object = dict[str, Any]
_API_SERVICES: Final = Resource(
    group="apiregistration.k8s.io",
    version="v1",
    plural="apiservices",
    kind="APIService",
    namespaced=False,
)
_USES: Final = ("lister", "authentication", "authorization")
"""For each a server of metrics has an argument with a kubeconfig."""
_DAY: Final = timedelta(days=1)


class Certificates:
    """The certificate of a Service that stands for this machine, and its authority.

    Args:
        service: also the namespace's name.
        folder: gets `ca.crt`, `tls.crt` and `tls.key`.
    """

    def __init__(self, service: str, folder: Path) -> None:
        self.service, self.folder = service, folder
        self._authority = Authority.create(service, now=datetime.now(UTC), lifetime=_DAY)
        folder.mkdir(parents=True)
        hosts = ["127.0.0.1", f"{service}.{service}.svc"]
        pair = self._authority.issue(
            service, now=datetime.now(UTC), lifetime=_DAY, hosts=hosts, server=True, client=True
        )
        (folder / "ca.crt").write_bytes(self._authority.certificate_pem)
        (folder / "tls.crt").write_bytes(pair.certificate_pem)
        (folder / "tls.key").write_bytes(pair.private_key_pem)

    @property
    def bundle(self) -> str:
        """The authority's certificate as an APIService has it."""
        return base64.b64encode(self._authority.certificate_pem).decode()

    def arguments(self, port: int, kubeconfig: Path) -> list[str]:
        """Arguments of a server of metrics: where it listens, and how it reaches the cluster."""
        return [
            f"--secure-port={port}",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={self.folder}/tls.crt",
            f"--tls-private-key-file={self.folder}/tls.key",
            *(f"--{use}-kubeconfig={kubeconfig}" for use in _USES),
        ]


@contextmanager
def process(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the block runs."""
    with log.open("wb") as output:
        running = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with shown_log(log):
            yield running
    finally:
        running.terminate()
        running.wait(STOP_SECONDS)


@asynccontextmanager
async def own_namespace(client: KubeClient, name: str) -> AsyncIterator[None]:
    """A namespace of a program while the block runs."""
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    try:
        yield
    finally:
        await client.delete(NAMESPACES, name)


@asynccontextmanager
async def registered(
    client: KubeClient,
    certificates: Certificates,
    *,
    host: str,
    port: int,
    apis: Collection[tuple[str, str]],
) -> AsyncIterator[None]:
    """Register APIs that this machine serves; nothing is left afterwards.

    Args:
        client: of an administrator.
        certificates: of the Service, in a namespace of its name that exists.
        host: this machine's address as the API server sees it.
        port: where the APIs are served.
        apis: group and version of each.
    """
    service = certificates.service
    names = [f"{version}.{group}" for group, version in apis]
    try:
        ports = [{"port": port}]
        spec: Object = {"type": "ExternalName", "externalName": host, "ports": ports}
        await client.create(SERVICES, {"metadata": {"name": service}, "spec": spec}, service)
        for group, version in apis:
            spec = {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": certificates.bundle,
                "service": {"name": service, "namespace": service, "port": port},
            }
            body = {"metadata": {"name": f"{version}.{group}"}, "spec": spec}
            await client.create(_API_SERVICES, body)

        async def are_asked() -> bool:
            return all([await _is_available(client, name) for name in names])

        await wait_until_async(are_asked, START_SECONDS, what=service)
        yield
    finally:
        # They go before the next test, which may stand in for the same API.
        for name in names:
            with suppress(NotFound):
                await client.delete(_API_SERVICES, name)


async def _is_available(client: KubeClient, name: str) -> bool:
    found = await client.get(_API_SERVICES, name)
    conditions = (found.get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == ("Available", "True") for each in conditions)
