"""di-server as its own process, real jobs for it, and connections to it byte by byte."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import requests
from typing_extensions import override

from di_api.kube.resources import DIJOBS, PODS
from di_api.kube.sync import SyncKubeClient
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
from tests.failures.sources import shown_log
from tests.ports import held_ports
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running di-server."""

    process: subprocess.Popen[bytes]
    ports: tuple[int, int]
    tls_port: int | None
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[1]}"

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

    def terminate(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL to the master and its worker, as when a node loses power."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)


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
    **variables: str,
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
        **variables,
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
    **variables: str,
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
        variables: more DI_SERVER_* settings, without the prefix, in lower case.
    """
    with held_ports(3 * count) as held:
        ports = [
            _Ports((first, second), third if certificates else None)
            for first, second, third in zip(held[::3], held[1::3], held[2::3], strict=True)
        ]
        if together:
            each = ",".join(f"127.0.0.1:{port.tls or port.plain[1]}" for port in ports)
            variables = {"peers": each, "peer_host": "127.0.0.1", **variables}
        servers = tuple(
            _start(folder, kubeconfig, variables, environment, certificates, ports=each)
            for each in ports
        )
        try:
            with ExitStack() as shown:
                for server in servers:
                    shown.enter_context(shown_log(server.log))
                for server in servers:
                    what = f"di-server, see {server.log}"
                    wait_until(partial(_answers, server, probe), START_SECONDS, what=what)
                yield servers
        finally:
            for server in servers:
                if server.process.poll() is None:
                    server.process.send_signal(signal.SIGTERM)
            for server in servers:
                server.process.wait(STOP_SECONDS)
    for server in servers:
        assert "Traceback" not in server.log.read_text(), server.log.read_text()


def _start(
    folder: Path,
    kubeconfig: Path,
    variables: Mapping[str, str],
    further: Mapping[str, str],
    certificates: Path | None,
    *,
    ports: _Ports,
) -> ServerProcess:
    settings = {
        "auth": "off",
        "drain_seconds": "0",
        "binds": ",".join(f"127.0.0.1:{port}" for port in (*ports.plain, ports.tls) if port),
        "tls_port": str(ports.tls or ""),
        "cert_dir": str(certificates or ""),
        **variables,
    }
    environment = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        **{f"DI_SERVER_{key.upper()}": value for key, value in settings.items()},
        **further,
    }
    log = folder / f"di-server-{ports.plain[0]}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "di_server.main"],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return ServerProcess(process=process, ports=ports.plain, tls_port=ports.tls, log=log)


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


def _answers(server: ServerProcess, path: str) -> bool:
    assert server.process.poll() is None, server.log.read_text()
    return answers_well(f"{server.url}/{path}")
