"""Clients that send too much, too slowly, or no HTTP at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import requests

from di_kube.config import KubeConfig
from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.integration.di_server import (
    Object,
    ServerProcess,
    collectors,
    connection,
    new_job,
    read_answer,
    running_server,
)
from tests.ports import held_port
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")
_PATH = "/v2alpha1/rl.cartpole/replicas"


@pytest.fixture(scope="module")
def server(
    api_server: ApiServer, crd: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    # So slow a rate that a loaded machine, too, asks faster.
    with running_server(folder, api_server.kubeconfig, rate="0.1", burst="40") as server:
        yield server


def _head(*headers: str, method: str = "POST", path: str = _PATH) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: di-server", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _refuses(sock: socket.socket, more: bytes) -> bool:
    """Whether the server has closed its end, seen by sending more."""
    try:
        sock.sendall(more)
    except ConnectionError:
        return True
    return False


def test_a_body_of_100_kb_is_refused(server: ServerProcess) -> None:
    answer = requests.post(f"{server.url}{_PATH}", data=b"x" * 100_000, timeout=60)
    assert answer.status_code == 413
    assert "65536 bytes" in answer.json()["message"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"no HTTP\r\n\r\n", 400),
        (_head(*(f"X-{number}: v" for number in range(60))), 431),
        (_head("Content-Length: 0"), 400),
        (_head(method="PATCH"), 405),
    ],
    ids=lambda value: ascii(value[:30]) if isinstance(value, bytes) else None,
)
def test_what_cannot_be_served_is_refused_in_the_envelope(
    server: ServerProcess, sent: bytes, status: int
) -> None:
    with connection(server) as sock:
        sock.sendall(sent)
        code, answer = read_answer(sock)
    assert code == status
    assert list(answer) == ["success", "code", "message", "data"]
    assert answer["success"] is False


def test_past_its_burst_a_job_waits_as_told(
    server: ServerProcess, kube_config: KubeConfig, namespace: str
) -> None:
    with SyncKubeClient(config=kube_config) as kube:
        job: Object = new_job(kube, namespace, tasks=[{}, {"maxReplicas": 1000}])
        with requests.Session() as session:
            answers = [
                session.post(server.replicas_of(job), json={"replicas": 1}, timeout=60)
                for _ in range(100)
            ]
        acknowledged = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert collectors(kube, job) == 2 + len(acknowledged)
    assert len(acknowledged) in range(40, 60)
    assert len(acknowledged) + len(refused) == 100
    assert all(int(answer.headers["Retry-After"]) in range(1, 11) for answer in refused)


@pytest.mark.proves("operations.md#availability/the-api-server")
def test_the_api_server_away_is_503_with_a_time_to_come_back(
    api_server: ApiServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        config = _kubeconfig(tmp_path, port=stack.enter_context(held_port()))
        server = stack.enter_context(running_server(tmp_path, config, probe="healthz"))
        answer = requests.post(f"{server.url}{_PATH}", json={"replicas": 1}, timeout=60)
        assert (answer.status_code, answer.json()["success"]) == (503, False)
        assert int(answer.headers["Retry-After"]) >= 1
        assert requests.get(f"{server.url}/readyz", timeout=60).status_code == 503
        assert requests.get(f"{server.url}/healthz", timeout=60).status_code == 200


def test_an_api_server_that_hangs_does_not_keep_the_kubelet_waiting(tmp_path: Path) -> None:
    threads = 4
    with ExitStack() as stack:
        health = f"127.0.0.1:{stack.enter_context(held_port())}"
        hanging = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        config = _kubeconfig(tmp_path, port=hanging.getsockname()[1])
        server = stack.enter_context(
            running_server(
                tmp_path, config, probe="healthz", threads=str(threads), health_bind=health
            )
        )

        def ask() -> None:
            # It is killed before it could answer.
            with suppress(requests.ConnectionError):
                requests.post(f"{server.url}{_PATH}", json={"replicas": 1}, timeout=60)

        def all_threads_wait() -> bool:
            try:
                requests.get(f"{server.url}/healthz", timeout=1)
            except requests.Timeout:
                return True
            return False

        asking = [threading.Thread(target=ask) for _ in range(8 * threads)]
        for thread in asking:
            thread.start()
        wait_until(all_threads_wait)
        # As it asks the API server, which does not answer; nobody else has to wait for that.
        readiness = stack.enter_context(ThreadPoolExecutor(1)).submit(
            requests.get, f"http://{health}/readyz", timeout=60
        )
        alive = requests.get(f"http://{health}/healthz", timeout=60)
        assert (alive.status_code, alive.json()["success"]) == (200, True)
        assert b"di_server_requests" in requests.get(f"http://{health}/metrics", timeout=60).content
        assert (readiness.result().status_code, readiness.result().json()["code"]) == (503, 1)
        elsewhere = requests.get(f"http://{health}{_PATH}", timeout=60)
        assert elsewhere.status_code == 404
        assert all_threads_wait()
        server.kill()
        for thread in asking:
            thread.join(60)


def _kubeconfig(folder: Path, *, port: int) -> Path:
    """Access to an API server at this port, which is none."""
    path = folder / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: away
contexts: [{{name: away, context: {{cluster: away, user: nobody}}}}]
clusters: [{{name: away, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{}}}}]
"""
    )
    return path
