"""KEDA as two processes of this machine: its operator, and the server of metrics that it has.

The API server asks the latter through an APIService, whose Service stands for this machine.
"""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from di_certs.authority import Authority
from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, NotFound
from di_kube.resources import CRDS, NAMESPACES, SERVICES, Resource
from tests.failures.sources import shown_log
from tests.integration.conftest import ApiServer, install_crd
from tests.ports import held_ports
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until, wait_until_async

Object = dict[str, Any]
T = TypeVar("T")
NAMESPACE: Final = "keda"
_SERVICE: Final = "keda-metrics-apiserver"
_METRICS: Final = "v1beta1.external.metrics.k8s.io"
_API_SERVICES: Final = Resource(
    group="apiregistration.k8s.io",
    version="v1",
    plural="apiservices",
    kind="APIService",
    namespaced=False,
)
_USES: Final = ("lister", "authentication", "authorization")
"""For each the server of metrics has an argument with a kubeconfig."""
_DAY: Final = timedelta(days=1)


@asynccontextmanager
async def keda(
    api_server: ApiServer, config: KubeConfig, folder: Path, *, trusted: Path
) -> AsyncIterator[None]:
    """Run KEDA; nothing of it is left afterwards.

    Args:
        api_server: its kubeconfig, and this machine's address as it sees it.
        config: the administrator's access to it.
        folder: gets certificates and logs.
        trusted: folder with authorities that KEDA trusts, as what is mounted in /custom/ca.
    """
    crds = [
        yaml.safe_load(path.read_bytes())
        for path in await asyncio.to_thread(Cluster().manifests, "keda-operator")
    ]
    authority = Authority.create("keda", now=datetime.now(UTC), lifetime=_DAY)
    certificates = _issue(authority, folder / "certs")
    async with KubeClient(config=config) as client:
        try:
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
            for crd in crds:
                await install_crd(config, crd)
            async with beside(
                _processes(api_server, folder, certificates, trusted=trusted)
            ) as port:
                for resource, body in _registration(api_server, authority, port):
                    await client.create(resource, body, *_where(resource))
                await wait_until_async(lambda: _is_asked(client), START_SECONDS, what="KEDA")
                yield
        finally:
            await _remove(client, [crd["metadata"]["name"] for crd in crds])


@asynccontextmanager
async def beside(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave one that blocks, in a thread: what runs in the loop goes on."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, manager)
        await asyncio.to_thread(stack.close)


def _issue(authority: Authority, folder: Path) -> Path:
    """The files that KEDA's own rotation of certificates would make."""
    folder.mkdir(parents=True)
    hosts = ["127.0.0.1", f"{_SERVICE}.{NAMESPACE}.svc"]
    pair = authority.issue(
        "keda", now=datetime.now(UTC), lifetime=_DAY, hosts=hosts, server=True, client=True
    )
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "tls.crt").write_bytes(pair.certificate_pem)
    (folder / "tls.key").write_bytes(pair.private_key_pem)
    return folder


@contextmanager
def _processes(
    api_server: ApiServer, folder: Path, certificates: Path, *, trusted: Path
) -> Iterator[int]:
    """Both processes; yields the port on which the API server asks for metrics."""
    with held_ports(4) as (port, health, between, metrics):
        operator = [
            str(api_server.binary("keda-operator")),
            "--enable-prometheus-metrics=false",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--metrics-service-bind-address=127.0.0.1:{between}",
            f"--cert-dir={certificates}",
            f"--ca-dir={trusted}",
        ]
        kubeconfig = api_server.kubeconfig
        adapter = [
            str(api_server.binary("keda-adapter")),
            f"--secure-port={port}",
            f"--port={metrics}",
            f"--metrics-service-address=127.0.0.1:{between}",
            f"--cert-dir={certificates}",
            f"--tls-cert-file={certificates}/tls.crt",
            f"--tls-private-key-file={certificates}/tls.key",
            *(f"--{use}-kubeconfig={kubeconfig}" for use in _USES),
        ]
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAMESPACE": NAMESPACE,
            "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
            "WATCH_NAMESPACE": "",
        }
        with (
            _process(operator, environment, folder / "keda-operator.log") as running,
            _process(adapter, environment, folder / "keda-adapter.log"),
        ):
            url = f"http://127.0.0.1:{health}/readyz"
            what = f"KEDA's operator, see {folder}/keda-operator.log"
            wait_until(lambda: _is_ready(running, url), START_SECONDS, what=what)
            yield port


@contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with shown_log(log):
            yield process
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"it has ended; asked for {url}")
    return answers_well(url)


def _registration(
    api_server: ApiServer, authority: Authority, port: int
) -> list[tuple[Resource, Object]]:
    service = {
        "metadata": {"name": _SERVICE},
        "spec": {
            "type": "ExternalName",
            "externalName": api_server.host_address,
            "ports": [{"port": port}],
        },
    }
    registered = {
        "metadata": {"name": _METRICS},
        "spec": {
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": base64.b64encode(authority.certificate_pem).decode(),
            "service": {"name": _SERVICE, "namespace": NAMESPACE, "port": port},
        },
    }
    return [(SERVICES, service), (_API_SERVICES, registered)]


def _where(resource: Resource) -> tuple[str, ...]:
    return (NAMESPACE,) if resource.namespaced else ()


async def _is_asked(client: KubeClient) -> bool:
    """Whether the API server reaches the metrics."""
    found = await client.get(_API_SERVICES, _METRICS)
    conditions = (found.get("status") or {}).get("conditions") or []
    return any((each["type"], each["status"]) == ("Available", "True") for each in conditions)


async def _remove(client: KubeClient, crds: Sequence[str]) -> None:
    """What is registered goes before the next test, which may stand in for the same API."""
    for resource, name in (
        (_API_SERVICES, _METRICS),
        *((CRDS, name) for name in crds),
        (NAMESPACES, NAMESPACE),
    ):
        try:
            await client.delete(resource, name)
        except NotFound:
            continue
        except ApiError as error:
            raise RuntimeError(f"{resource.kind} {name} is left") from error
