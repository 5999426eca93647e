"""The members' board of three di-servers that tell each other, one of which is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from di_certs.files import write_certificates
from di_kube.resources import PODS, SERVICE_ACCOUNTS
from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.integration.di_server import (
    Object,
    ServerProcess,
    new_job,
    new_pod,
    running_server,
    running_servers,
    session_from,
)
from tests.integration.service_accounts import token_of
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")
OFTEN = "100000"
"""A pod may ask as often as a test looks."""


class Pod:
    """A pod at an address of its own, which says something of itself and asks for the others."""

    def __init__(self, kube: SyncKubeClient, job: Object, number: int) -> None:
        self.job, self.address = job, f"127.66.0.{number}"
        pod = new_pod(kube, job, number, self.address)
        self.name = pod["metadata"]["name"]
        self._says: dict[str, Any] = {"url": f"http://{self.address}:8000"}
        # One word at a time, as of a program.
        self._lock = threading.Lock()

    def put(self, server: ServerProcess, **says: Any) -> None:
        with self._lock, session_from(self.address) as session:
            self._says |= says
            url = f"{server.members_of(self.job)}/{self.name}"
            answer = session.put(url, json=self._says, timeout=60)
        assert answer.status_code == 200, answer.text
        assert answer.json()["data"] == {"heartbeatSeconds": 10.0, "lifetimeSeconds": 30.0}

    def ask(self, server: ServerProcess, **query: Any) -> Any:
        with session_from(self.address) as session:
            answer = session.get(server.members_of(self.job), params=query, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def names(self, server: ServerProcess) -> list[str]:
        return [member["pod"] for member in self.ask(server)["members"]]


@contextmanager
def beating(server: ServerProcess, *pods: Pod) -> Iterator[None]:
    """The pods repeat what they say, however long a test takes."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(2):
            for pod in pods:
                pod.put(server)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(beat)
        try:
            yield
        finally:
            ended.set()
        done.result(60)


def test_three_servers_have_one_board_and_one_of_them_may_be_killed(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    write_certificates(tmp_path, ["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    token = tmp_path / "token"
    token.write_text(_token(kube, namespace))
    job = new_job(kube, namespace)
    first, second, third = (Pod(kube, job, number) for number in range(1, 4))
    with running_servers(
        3,
        tmp_path,
        api_server.kubeconfig,
        certificates=tmp_path,
        together=True,
        auth="optional",
        peer_token_file=str(token),
        rate=OFTEN,
        burst=OFTEN,
    ) as servers:
        one, two, three = servers
        for pod, server in zip((first, second, third), servers, strict=True):
            pod.put(server)
        everybody = [first.name, second.name, third.name]
        with beating(one, first, second, third):
            for server in servers:
                wait_until(
                    lambda server=server: first.names(server) == everybody,  # type: ignore[misc]
                    what="each server to know all",
                )
            (generation,) = {first.ask(server)["generation"] for server in servers}

            with ThreadPoolExecutor(3) as pool:

                def wait(server: ServerProcess) -> Any:
                    # Again where the time was up before there was news.
                    while True:
                        found = first.ask(server, generation=generation, wait=20, changes="true")
                        if found["generation"] != generation:
                            return found

                # The client knows the state from any of them, and is told of the change by each.
                waiting = [pool.submit(wait, server) for server in servers]
                for server in servers:
                    wait_until(lambda server=server: _waiting(server) == 1, what="all to wait")  # type: ignore[misc]
                second.put(three, weightVersion=2)
                for each in waiting:
                    data = each.result(60)
                    assert (data["complete"], data["gone"]) == (False, [])
                    (member,) = data["members"]
                    assert (member["pod"], member["says"]["weightVersion"]) == (second.name, 2)

            three.kill()
            # What only that one was told by its pod is known to the others, and more is.
            assert first.names(one) == first.names(two) == everybody

        fourth = Pod(kube, job, 4)
        fourth.put(one)
        with beating(one, second, third, fourth):
            for server in (one, two):
                wait_until(
                    lambda server=server: fourth.name in first.names(server),  # type: ignore[misc]
                    what="the others to tell each other",
                )
            kube.delete(PODS, first.name, namespace)
            for server in (one, two):
                wait_until(
                    lambda server=server: first.name not in second.names(server),  # type: ignore[misc]
                    what="the entry to go with its pod",
                )
            assert second.ask(one)["generation"] == second.ask(two)["generation"]

        # A stranger's token for the same audience is no server's.
        other = requests.post(
            f"{one.encrypted_url}/internal/members",
            json={},
            headers={"Authorization": f"Bearer {_token(kube, namespace, 'other')}"},
            verify=str(tmp_path / "ca.crt"),
            timeout=60,
        )
        assert other.status_code == 403


def test_a_server_that_nobody_knows_knows_all_before_it_is_ready(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    pod = Pod(kube, job, 9)
    with running_server(tmp_path, api_server.kubeconfig, rate=OFTEN, burst=OFTEN) as old:
        pod.put(old)
        peers = f"127.0.0.1:{old.ports[1]}"
        with (
            running_server(
                tmp_path, api_server.kubeconfig, peers=peers, rate=OFTEN, burst=OFTEN
            ) as new,
            beating(old, pod),
        ):
            wait_until(lambda: pod.names(new) == [pod.name], what="the watch to show the pod")


def _waiting(server: ServerProcess) -> int:
    text = requests.get(f"{server.url}/metrics", timeout=60).text
    (line,) = [each for each in text.splitlines() if each.startswith("di_server_members_waiting ")]
    return int(float(line.split()[1]))


def _token(kube: SyncKubeClient, namespace: str, account: str = "di-server") -> str:
    kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, namespace)
    return token_of(kube, namespace, account, audience="di-server")
