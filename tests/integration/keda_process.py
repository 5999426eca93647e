"""KEDA as two processes of this machine: its operator, and the server of metrics that it has.

The API server asks the latter through an APIService, whose Service stands for this machine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import yaml

from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.errors import ApiError, NotFound
from di_kube.resources import CRDS
from tests.integration.aggregated_api import Certificates, own_namespace, process, registered
from tests.integration.conftest import ApiServer, install_crd, patient
from tests.ports import held_ports
from tests.waiting import START_SECONDS, answers_well, wait_until

T = TypeVar("T")
NAMESPACE: Final = "keda"
_METRICS: Final = ("external.metrics.k8s.io", "v1beta1")


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
    certificates = Certificates(NAMESPACE, folder / "certs")
    async with patient(config) as client:
        try:
            for crd in crds:
                await install_crd(config, crd)
            async with (
                own_namespace(client, NAMESPACE),
                beside(_processes(api_server, folder, certificates, trusted=trusted)) as port,
                registered(
                    client, certificates, host=api_server.host_address, port=port, apis=[_METRICS]
                ),
            ):
                yield
        finally:
            await _remove(client, [crd["metadata"]["name"] for crd in crds])


@asynccontextmanager
async def beside(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave one that blocks, in a thread: what runs in the loop goes on."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, manager)
        await asyncio.to_thread(stack.close)


@contextmanager
def _processes(
    api_server: ApiServer, folder: Path, certificates: Certificates, *, trusted: Path
) -> Iterator[int]:
    """Both processes; yields the port on which the API server asks for metrics."""
    with held_ports(4) as (port, health, between, metrics):
        operator = [
            str(api_server.binary("keda-operator")),
            "--enable-prometheus-metrics=false",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            f"--metrics-service-bind-address=127.0.0.1:{between}",
            f"--cert-dir={certificates.folder}",
            f"--ca-dir={trusted}",
        ]
        kubeconfig = api_server.kubeconfig
        adapter = [
            str(api_server.binary("keda-adapter")),
            f"--port={metrics}",
            f"--metrics-service-address=127.0.0.1:{between}",
            *certificates.arguments(port, kubeconfig),
        ]
        environment = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "POD_NAMESPACE": NAMESPACE,
            "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
            "WATCH_NAMESPACE": "",
        }
        with (
            process(operator, environment, folder / "keda-operator.log") as running,
            process(adapter, environment, folder / "keda-adapter.log"),
        ):
            url = f"http://127.0.0.1:{health}/readyz"
            what = f"KEDA's operator, see {folder}/keda-operator.log"
            wait_until(lambda: _is_ready(running, url), START_SECONDS, what=what)
            yield port


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"it has ended; asked for {url}")
    return answers_well(url)


async def _remove(client: KubeClient, crds: Sequence[str]) -> None:
    for name in crds:
        try:
            await client.delete(CRDS, name)
        except NotFound:
            continue
        except ApiError as error:
            raise RuntimeError(f"{CRDS.kind} {name} is left") from error
