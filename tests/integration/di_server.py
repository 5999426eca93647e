"""di-server as its own process, real jobs for it, and connections to it byte by byte."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import requests
from typing_extensions import override

from di_api.names import (
    ANNOTATION_RANK,
    API_VERSION,
    DI_CONTAINER,
    KIND,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)
from di_kube.resources import DIJOBS, PODS
from di_kube.sync import SyncKubeClient
from tests.integration.service_process import ServiceProcess, started, variables
from tests.ports import held_ports
from tests.waiting import START_SECONDS, wait_until

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess(ServiceProcess):
    """A running di-server; `health` is `url`."""

    ports: tuple[int, int]
    tls_port: int | None

    @property
    def url(self) -> str:
        return self.health

    @property
    def encrypted_url(self) -> str:
        assert self.tls_port is not None, "it has no certificates"
        return f"https://127.0.0.1:{self.tls_port}"

    def replicas_of(self, job: Object, *, encrypted: bool = False) -> str:
        """URL of the job's replicas, as a pod composes it."""
        url = self.encrypted_url if encrypted else self.url
        return f"{url}{_path(job)}/replicas"

    def members_of(self, job: Object) -> str:
        """URL of the job's members."""
        return f"{self.url}{_path(job)}/members"


class _Ports(NamedTuple):
    plain: tuple[int, int]
    tls: int | None


@contextmanager
def running_server(
    folder: Path,
    kubeconfig: Path,
    environment: Mapping[str, str] = {},
    /,
    *,
    probe: str = "readyz",
    certificates: Path | None = None,
    **given: str,
) -> Iterator[ServerProcess]:
    """Run one di-server; see `running_servers`."""
    with running_servers(
        1,
        folder,
        kubeconfig,
        environment,
        probe=probe,
        certificates=certificates,
        together=False,
        **given,
    ) as (server,):
        yield server


@contextmanager
def running_servers(
    count: int,
    folder: Path,
    kubeconfig: Path,
    environment: Mapping[str, str] = {},
    /,
    *,
    probe: str = "readyz",
    certificates: Path | None = None,
    together: bool = False,
    **given: str,
) -> Iterator[tuple[ServerProcess, ...]]:
    """Run di-servers, each on two free ports; their logs hold no traceback at the end.

    Args:
        count: how many; they start side by side.
        folder: where the logs go.
        kubeconfig: their access to the API server.
        environment: variables of any name.
        certificates: folder with tls.crt and tls.key, for a third port with HTTPS.
        probe: the path that must answer 200 before the body runs.
        together: whether they know each other, by HTTPS if they have it.
        given: more DI_SERVER_* settings, without the prefix, in lower case.
    """
    with held_ports(3 * count) as held:
        ports = [
            _Ports((first, second), third if certificates else None)
            for first, second, third in zip(held[::3], held[1::3], held[2::3], strict=True)
        ]
        if together:
            each = ",".join(f"127.0.0.1:{port.tls or port.plain[1]}" for port in ports)
            given = {"peers": each, "peer_host": "127.0.0.1", **given}
        with ExitStack() as stack:
            servers = tuple(
                stack.enter_context(
                    _started(folder, kubeconfig, given, environment, certificates, ports=each)
                )
                for each in ports
            )
            for server in servers:
                answers = partial(server.answers, probe)
                wait_until(answers, START_SECONDS, what=f"di-server, see {server.log}")
            yield servers


@contextmanager
def _started(
    folder: Path,
    kubeconfig: Path,
    given: Mapping[str, str],
    further: Mapping[str, str],
    certificates: Path | None,
    *,
    ports: _Ports,
) -> Iterator[ServerProcess]:
    settings = {
        "auth": "off",
        "drain_seconds": "0",
        "binds": ",".join(f"127.0.0.1:{port}" for port in (*ports.plain, ports.tls) if port),
        "tls_port": str(ports.tls or ""),
        "cert_dir": str(certificates or ""),
        **given,
    }
    log = folder / f"di-server-{ports.plain[0]}.log"
    chosen = {"KUBECONFIG": str(kubeconfig), **variables("server", settings), **further}
    with started("server", log, chosen) as process:
        url = f"http://127.0.0.1:{ports.plain[1]}"
        yield ServerProcess(
            process=process, health=url, log=log, ports=ports.plain, tls_port=ports.tls
        )


def _path(job: Object) -> str:
    metadata = job["metadata"]
    return f"/v2alpha1/job/{metadata['namespace']}/{metadata['name']}"


def new_job(kube: SyncKubeClient, namespace: str, name: str = "cartpole", **spec: Any) -> Object:
    """Create a job of one learner and two collectors, or as `spec` says."""
    template = {"spec": {"containers": [{"name": DI_CONTAINER, "image": "busybox"}]}}
    tasks = [
        {"name": "learner", "type": "learner", "replicas": 1, "template": template},
        {"name": "collector", "type": "collector", "replicas": 2, "template": template},
    ]
    for task, changes in zip(tasks, spec.pop("tasks", ()), strict=False):
        task.update(changes)
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"tasks": tasks, **spec},
    }
    return kube.create(DIJOBS, body, namespace)


def new_coordinated_job(kube: SyncKubeClient, namespace: str, name: str = "led") -> Object:
    """Create a job whose coordinator has asked for nothing yet."""
    template = {"spec": {"containers": [{"name": DI_CONTAINER, "image": "busybox"}]}}
    roles = ("coordinator", "collector", "learner")
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"coordinated": {role: {"template": template} for role in roles}},
    }
    return kube.create(DIJOBS, body, namespace)


def new_pod(
    kube: SyncKubeClient,
    job: Object,
    rank: int,
    ip: str | None,
    *,
    phase: str = "Running",
    name: str | None = None,
    task: str = "collector",
) -> Object:
    """Create a pod of the job as the operator does, and report its address as a kubelet does."""
    metadata = job["metadata"]
    body = {
        "metadata": {
            "name": name or f"{metadata['name']}-{rank}",
            "labels": {
                LABEL_JOB: metadata["name"],
                LABEL_OPERATOR: OPERATOR_NAME,
                LABEL_TASK_NAME: task,
            },
            "annotations": {ANNOTATION_RANK: str(rank)},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": DI_CONTAINER, "image": "busybox"}]},
    }
    pod = kube.create(PODS, body, metadata["namespace"])
    status: Object = {"phase": phase}
    if ip:
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    return kube.patch(
        PODS,
        pod["metadata"]["name"],
        {"status": status},
        metadata["namespace"],
        subresource="status",
    )


def read_job(kube: SyncKubeClient, job: Object) -> Object:
    """The job as it is now."""
    return kube.get(DIJOBS, job["metadata"]["name"], job["metadata"]["namespace"])


def collectors(kube: SyncKubeClient, job: Object) -> int:
    """Replicas of the second task."""
    count: int = read_job(kube, job)["spec"]["tasks"][1]["replicas"]
    return count


def set_status(kube: SyncKubeClient, job: Object, status: Mapping[str, Any]) -> None:
    """Write a job's status as the operator does."""
    metadata = job["metadata"]
    patch = {"status": dict(status)}
    kube.patch(DIJOBS, metadata["name"], patch, metadata["namespace"], subresource="status")


class FromAddress(requests.adapters.HTTPAdapter):
    """Sends from another address of this machine, as another pod would."""

    def __init__(self, address: str) -> None:
        self._address = address
        super().__init__()

    @override
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, source_address=(self._address, 0), **options)


@contextmanager
def session_from(address: str) -> Iterator[requests.Session]:
    """A client at an address of 127.0.0.0/8."""
    with requests.Session() as session:
        session.mount("http://", FromAddress(address))
        yield session


@contextmanager
def connection(server: ServerProcess, timeout: float = 15.0) -> Iterator[socket.socket]:
    """A plain TCP connection."""
    with socket.create_connection(("127.0.0.1", server.ports[0]), timeout) as sock:
        yield sock


def read_answer(sock: socket.socket) -> tuple[int, Object]:
    """Status and envelope of an answer that ends with the connection or its Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        assert piece, f"closed after {data!r}"
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    while len(body) < int(headers["content-length"]):
        piece = sock.recv(65536)
        assert piece, f"closed after {data!r}"
        body += piece
    return int(lines[0].split()[1]), json.loads(body)
