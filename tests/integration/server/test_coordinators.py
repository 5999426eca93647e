"""Coordinators get what they ask for, exactly once, whoever else asks and whatever dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import requests

from di_api.names import AGGREGATOR_CONFIG, DI_CONTAINER, DI_PORT_NAME, GPU_RESOURCE
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, DIJOBS, NODES, PODS
from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer, definition, install_crd
from tests.integration.coordinator import Coordinator
from tests.integration.di_server import (
    Object,
    ServerProcess,
    new_coordinated_job,
    new_pod,
    read_job,
    running_server,
    running_servers,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")


@pytest.fixture(scope="module")
def server(
    api_server: ApiServer, crd: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, api_server.kubeconfig, rate="1000", burst="1000") as server:
        yield server


def _names(kube: SyncKubeClient, job: Object) -> list[str]:
    """Replicas of the job as etcd has it."""
    replicas = read_job(kube, job)["spec"]["coordinated"].get("replicas") or []
    return [each["name"] for each in replicas]


def _pods(*listings: Object) -> list[str]:
    """Names of the pods at the addresses of some answers."""
    return [
        url.split(".")[0]
        for listing in listings
        for url in (*listing["collectors"], *listing["learners"])
    ]


def test_both_ports_and_both_versions_serve(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    job = new_coordinated_job(kube, namespace)
    body = {
        "namespace": namespace,
        "coordinator": "led-coordinator",
        "collectors": {"replicas": 1, "cpus": 0.5, "memory": "64Mi"},
        "learners": {"replicas": 1, "gpus": 1},
    }
    created = []
    for port in server.ports:
        for version in ("v1alpha1", "v1alpha2"):
            url = f"http://127.0.0.1:{port}/{version}/replicas"
            answer = requests.post(url, json=body, timeout=60)
            assert answer.status_code == 200, answer.text
            created.append(answer.json()["data"])
    with Coordinator(server, job) as coordinator:
        listed = coordinator.replicas()
    assert sorted(_pods(listed)) == sorted(_pods(*created))
    collector, learner, *_ = read_job(kube, job)["spec"]["coordinated"]["replicas"]
    assert collector["resources"] == {"cpu": "500m", "memory": "64Mi"}
    assert learner["resources"] == {"nvidia.com/gpu": 1}


def test_a_coordinator_is_served_as_soon_as_its_job_is_there(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    for number in range(30):
        job = new_coordinated_job(kube, namespace, f"led-{number}")
        with Coordinator(server, job) as coordinator:
            assert coordinator.replicas()["collectors"] == []
            created = coordinator.post(2, 1)
            assert coordinator.replicas() == created
        kube.patch(DIJOBS, f"led-{number}", {"metadata": {"labels": {"x": "y"}}}, namespace)


def test_64_coordinators_at_once_each_have_what_they_asked_for(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    jobs = [new_coordinated_job(kube, namespace, f"led-{number}") for number in range(64)]

    def train(job: Object) -> None:
        with Coordinator(server, job) as coordinator:
            first = coordinator.post(4, 1, cpus=1)
            assert coordinator.replicas() == first
            failed, *kept = first["collectors"]
            (new,) = coordinator.report(failed, failed)["collectors"]
            assert coordinator.replicas()["collectors"] == [new, *kept]
            gone = coordinator.delete(2)
            assert gone["collectors"] == kept[-2:]
            expected = {**first, "collectors": [new, kept[0]]}
            for _ in range(10):
                assert coordinator.replicas() == expected
        assert _names(kube, job) == _pods(expected)

    with ThreadPoolExecutor(64) as pool:
        for each in [pool.submit(train, job) for job in jobs]:
            each.result(timeout=120)


def test_two_servers_add_to_one_job_and_agree(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_coordinated_job(kube, namespace)
    with running_servers(2, tmp_path, api_server.kubeconfig, burst="1000") as servers:

        def ask(number: int) -> Object:
            with Coordinator(servers[number % 2], job) as coordinator:
                created = coordinator.post(number % 3, 1)
                # The server that wrote it lists it at once, whoever wrote since.
                assert set(_pods(created)) <= set(_pods(coordinator.replicas()))
                return created

        with ThreadPoolExecutor(8) as pool:
            created = list(pool.map(ask, range(24)))
        names = _names(kube, job)
        assert sorted(_pods(*created)) == sorted(names)
        for server in servers:
            with Coordinator(server, job) as coordinator:
                wait_until(partial(_lists, coordinator, names))


def test_a_server_killed_in_the_middle_leaves_all_of_a_request_or_nothing(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    jobs = [new_coordinated_job(kube, namespace, f"led-{number}") for number in range(16)]
    with running_servers(2, tmp_path, api_server.kubeconfig) as (one, two):

        def ask(number: int) -> Object | None:
            with Coordinator(one, jobs[number]) as coordinator:
                if number == 8:
                    one.kill()
                try:
                    return coordinator.post(50)
                except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                    return None

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, range(len(jobs))))
        assert None in answers
        for job, answer in zip(jobs, answers, strict=True):
            before = _names(kube, job)
            assert before == _pods(answer) if answer else len(before) in (0, 50)
            # Nothing tells a client that asks again from one that wants more.
            with Coordinator(two, job) as coordinator:
                again = coordinator.post(50)
            assert _names(kube, job) == [*before, *_pods(again)]


def test_a_pod_that_outlives_its_job_has_no_say_in_the_next_one(
    server: ServerProcess, kube: SyncKubeClient, namespace: str
) -> None:
    old = new_coordinated_job(kube, namespace)
    new_pod(kube, old, 0, None, name="led-coordinator")
    slow = {"metadata": {"finalizers": ["test.example/ends-slowly"]}}
    kube.patch(PODS, "led-coordinator", slow, namespace)
    with Coordinator(server, old) as coordinator:
        coordinator.post(1)
        kube.delete(DIJOBS, "led", namespace)
        job = new_coordinated_job(kube, namespace)
        assert job["metadata"]["uid"] != old["metadata"]["uid"]
        with pytest.raises(requests.HTTPError, match="403"):
            coordinator.post(1)
        with pytest.raises(requests.HTTPError, match="403"):
            coordinator.replicas()
        # Ends at last, whether or not the garbage collector has come by.
        kube.delete(PODS, "led-coordinator", namespace)
        kube.patch(PODS, "led-coordinator", {"metadata": {"finalizers": []}}, namespace)
        # The pod of the new job takes its place.
        wait_until(lambda: not _pod_is_there(kube, namespace, "led-coordinator"))
        new_pod(kube, job, 0, None, name="led-coordinator")
        assert coordinator.replicas()["collectors"] == []
    assert _names(kube, job) == []


@pytest.fixture
def nodes(kube: SyncKubeClient) -> Iterator[None]:
    """Nodes with 8, 8, 0 and 4 GPUs."""
    names = [f"gpu-node-{number}" for number in range(4)]
    for name, gpus in zip(names, (8, 8, 0, 4), strict=True):
        kube.create(NODES, {"metadata": {"name": name}})
        amounts = {"cpu": "4", **({GPU_RESOURCE: str(gpus)} if gpus else {})}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        kube.patch(NODES, name, status, subresource="status")
    yield
    for name in names:
        kube.delete(NODES, name)


@pytest.mark.usefixtures("nodes")
def test_a_learner_on_many_gpus_is_an_aggregator_and_pods_on_nodes_of_the_usual_kind(
    api_server: ApiServer,
    kube_config: KubeConfig,
    kube: SyncKubeClient,
    namespace: str,
    tmp_path: Path,
) -> None:
    asyncio.run(install_crd(kube_config, definition("aggregatorconfigs-crd")))
    job = new_coordinated_job(kube, namespace)
    setting: Object = {"aggregator_config": f"{namespace}/{AGGREGATOR_CONFIG}"}
    with (
        running_server(tmp_path, api_server.kubeconfig, **setting) as server,
        Coordinator(server, job) as coordinator,
    ):
        with pytest.raises(requests.HTTPError, match="404"):
            coordinator.post(learners=1, gpus=2)
        assert coordinator.post(learners=1, gpus=1)["learners"]
        _new_aggregator_config(kube, namespace, port=3000)
        (aggregator,) = coordinator.post(learners=1, gpus=10)["learners"]
        assert aggregator.endswith(":3000")
        with Coordinator(server, job, aggregator.split(".")[0]) as itself:
            learners = itself.replicas()["learners"]
            ports = [int(url.split(":")[1]) for url in learners]
            assert ports == [*range(22271, 22279), 22271, 22272]
            renewed = itself.report(learners[9])["learners"]
            assert [int(url.split(":")[1]) for url in renewed] == ports
            assert not set(renewed) & set(learners)
            assert itself.replicas()["learners"] == renewed
        assert len(coordinator.delete(learners=9)["learners"]) == 2
    assert _names(kube, job) == []


def _new_aggregator_config(kube: SyncKubeClient, namespace: str, *, port: int) -> None:
    container = {
        "name": DI_CONTAINER,
        "image": "busybox",
        "ports": [{"name": DI_PORT_NAME, "containerPort": port}],
    }
    body = {
        "apiVersion": AGGREGATOR_CONFIGS.api_version,
        "kind": AGGREGATOR_CONFIGS.kind,
        "metadata": {"name": AGGREGATOR_CONFIG, "namespace": namespace},
        "spec": {"aggregator": {"template": {"spec": {"containers": [container]}}}},
    }
    kube.create(AGGREGATOR_CONFIGS, body, namespace)


def _pod_is_there(kube: SyncKubeClient, namespace: str, name: str) -> bool:
    try:
        kube.get(PODS, name, namespace)
    except NotFound:
        return False
    return True


def _lists(coordinator: Coordinator, names: list[str]) -> bool:
    return sorted(_pods(coordinator.replicas())) == sorted(names)
