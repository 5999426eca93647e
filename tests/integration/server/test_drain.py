"""SIGTERM loses no request."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.integration.di_server import (
    ServerProcess,
    collectors,
    connection,
    new_job,
    read_answer,
    running_server,
)
from tests.waiting import STOP_SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("crd")


def test_a_request_that_has_begun_is_finished(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    body = b'{"replicas": 1}'
    path = server_path(namespace)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with running_server(tmp_path, api_server.kubeconfig) as server:
        with connection(server) as sock:
            sock.sendall(head.encode() + body[:5])
            # Another request answered after it: the server has seen the first bytes by then.
            assert requests.get(f"{server.url}/healthz", timeout=60).status_code == 200
            server.process.terminate()
            wait_until(lambda: "Handling signal: term" in server.log.read_text())
            sock.sendall(body[5:])
            status, answer = read_answer(sock)
        assert (status, answer["data"]) == (200, {"task": "collector", "replicas": 3})
        assert server.process.wait(STOP_SECONDS) == 0
    assert collectors(kube, job) == 3


def test_requests_during_the_drain_are_served_and_readiness_says_to_leave(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    left = threading.Event()
    codes: list[int] = []
    drain: dict[str, Any] = {"drain_seconds": "8", "rate": "100000", "burst": "100000"}
    with running_server(tmp_path, api_server.kubeconfig, **drain) as server:
        url = server.replicas_of(job)

        def stream(kept: bool) -> None:
            """Ask without pause, on one connection or on a new one each time."""
            with requests.Session() as session:
                while not left.is_set():
                    ask = session.get if kept else requests.get
                    codes.append(ask(url, timeout=60).status_code)

        with ThreadPoolExecutor(4) as pool:
            streams = [pool.submit(stream, kept) for kept in (True, True, False, False)]
            server.process.terminate()
            try:
                wait_until(lambda: _ready(server) == 503, what="readiness to end")
                # As in a cluster: clients learn of it later, and go elsewhere.
                before = len(codes)
                wait_until(lambda: len(codes) >= before + 20, what="answers during the drain")
            finally:
                left.set()
            for each in streams:
                each.result()
        assert server.process.wait(STOP_SECONDS) == 0
    assert set(codes) == {200}


def server_path(namespace: str) -> str:
    """Path of the replicas of the one job."""
    return f"/v2alpha1/{namespace}.cartpole/replicas"


def _ready(server: ServerProcess) -> int:
    return requests.get(f"{server.url}/readyz", timeout=60).status_code
