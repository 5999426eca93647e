"""Scaling over HTTP changes spec.tasks[].replicas exactly once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
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
    new_job,
    read_job,
    running_server,
    running_servers,
    set_status,
)

pytestmark = pytest.mark.usefixtures("crd")


@pytest.fixture(scope="module")
def server(
    api_server: ApiServer, crd: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), api_server.kubeconfig) as server:
        yield server


def test_both_ports_and_every_form_of_the_path_scale(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    job = new_job(kube, namespace)
    forms = (f"{namespace}.cartpole", f"{namespace}.cartpole.1", f"{namespace}/cartpole")
    count = 2
    for port in server.ports:
        for form in forms:
            for path in (form, f"job/{form}"):
                count += 1
                answer = requests.post(
                    f"http://127.0.0.1:{port}/v2alpha1/{path}/replicas",
                    data=b'{"replicas": 1}',
                    timeout=60,
                )
                assert answer.json()["data"] == {"task": "collector", "replicas": count}
    assert collectors(kube, job) == count


@pytest.mark.parametrize(
    ("body", "spec", "status", "code"),
    [
        ({"replicas": 1}, {"tasks": [{}, {"maxReplicas": 2}]}, {}, 422),
        ({"replicas": 1}, {}, {"phase": "Succeeded"}, 409),
        ({"replicas": "two"}, {}, {}, 400),
    ],
)
def test_a_refused_request_writes_nothing(  # noqa: PLR0917  fixtures and a table row
    server: ServerProcess,
    kube: SyncKubeClient,
    namespace: str,
    body: dict[str, object],
    spec: dict[str, Any],
    status: dict[str, object],
    code: int,
) -> None:
    job = new_job(kube, namespace, **spec)
    if status:
        set_status(kube, job, status)
    before = read_job(kube, job)["metadata"]["resourceVersion"]
    answer = requests.post(server.replicas_of(job), json=body, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (code, 1)
    assert read_job(kube, job)["metadata"]["resourceVersion"] == before


def test_64_concurrent_requests_over_three_servers_lose_nothing(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace, tasks=[{}, {"replicas": 100, "maxReplicas": 200}])
    with running_servers(3, tmp_path, api_server.kubeconfig) as servers:

        def scale(number: int) -> tuple[int, int]:
            method, sign = ("POST", 1) if number % 2 else ("DELETE", -1)
            url, key = servers[number % 3].replicas_of(job), {"Idempotency-Key": f"k{number}"}
            for _ in range(30):
                answer = requests.request(
                    method, url, json={"replicas": 1}, headers=key, timeout=60
                )
                if answer.status_code == 200:
                    return sign, answer.json()["data"]["replicas"]
                # With a key a change whose result is unknown (504) can be sent again too.
                assert answer.status_code in (429, 503, 504), answer.text
                time.sleep(float(answer.headers.get("Retry-After", "1")) * random.random())
            raise AssertionError(f"request {number} never got through")

        with ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(scale, range(64)))

    assert collectors(kube, job) == 100 + sum(sign for sign, _ in answers)
    # The answers are steps of one walk: every value is left as often as it is reached.
    left = Counter(value - sign for sign, value in answers)
    reached = Counter(value for _, value in answers)
    assert left + Counter([collectors(kube, job)]) == reached + Counter([100])


def test_another_writer_at_the_same_time_keeps_its_change(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    job = new_job(kube, namespace)

    def write_status(number: int) -> None:
        set_status(kube, job, {"restarts": number})

    def scale(number: int) -> int:
        answer = requests.post(server.replicas_of(job), json={"replicas": 1}, timeout=60)
        return answer.status_code

    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(write_status, number) for number in range(1, 41)]
        codes = list(pool.map(scale, range(20)))
        for write in writes:
            write.result(timeout=60)
    assert set(codes) == {200}
    assert collectors(kube, job) == 22
    assert read_job(kube, job)["status"]["restarts"] in range(1, 41)


def test_one_key_has_one_effect_across_servers_and_a_kill(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    key = {"Idempotency-Key": "one"}

    def send(server: ServerProcess, count: int = 2) -> requests.Response:
        return requests.post(
            server.replicas_of(job), json={"replicas": count}, headers=key, timeout=60
        )

    with running_servers(2, tmp_path, api_server.kubeconfig) as (one, two):
        first = send(one)
        one.kill()
        answers = [send(two) for _ in range(9)]
        assert {answer.text for answer in answers} == {first.text}
        assert send(two, 3).status_code == 409
    assert first.json()["data"] == {"task": "collector", "replicas": 4}
    assert collectors(kube, job) == 4


@pytest.mark.extended  # `make soak` kills di-servers beside more requests.
def test_a_kill_in_the_middle_of_requests_loses_and_doubles_nothing(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    with running_servers(2, tmp_path, api_server.kubeconfig) as (one, two):

        def scale(number: int) -> bool:
            """Ask the first server, then, if it dies, the second one under the same key."""
            key = {"Idempotency-Key": f"k{number}"}
            for server in (one, two):
                if number == 10 and server is one:
                    one.kill()
                try:
                    answer = requests.post(
                        server.replicas_of(job), json={"replicas": 1}, headers=key, timeout=60
                    )
                except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                    assert server is one
                    continue
                assert answer.status_code == 200, answer.text
                return True
            raise AssertionError("unreachable: the second server answers")

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(scale, range(20)))
    assert collectors(kube, job) == 2 + 20


def test_profilings_end_in_the_status_beside_the_fields_of_others(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    job = new_job(kube, namespace)
    set_status(kube, job, {"phase": "Running", "restarts": 1})
    url = server.replicas_of(job).replace("/replicas", "/profilings")
    for body in ({"env": {"steps": 1}}, {"data": {"env": {"curve": [1.5, 2]}, "note": "it's"}}):
        assert requests.post(url, json=body, timeout=60).json()["success"] is True
    status = read_job(kube, job)["status"]
    assert status["profilings"] == {"env": {"steps": 1, "curve": [1.5, 2]}, "note": "it's"}
    beat = {"pod": "cartpole-learner-0", "withinSeconds": 300}
    assert requests.post(url, json={"heartbeat": beat}, timeout=60).json()["success"] is True
    heartbeats = read_job(kube, job)["status"]["progress"]["heartbeats"]
    assert heartbeats["cartpole-learner-0"].keys() == {"at", "withinSeconds"}
    assert (status["phase"], status["restarts"]) == ("Running", 1)
