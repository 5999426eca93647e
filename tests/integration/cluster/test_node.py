"""A real node runs containers: pods, DNS, Services, images built here."""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from di_cluster.apiserver import ApiServer
from di_cluster.builds.archive import TEST_IMAGE
from di_cluster.cluster import Cluster
from di_cluster.errors import ClusterError
from di_cluster.reporter import Reporter
from tests.failures.clusters import running
from tests.waiting import wait_until

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster("test-node", profile="node", reporter=Reporter(None))
    cluster.down()
    with running(cluster):
        yield cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> ApiServer:
    return ApiServer(cluster.kubeconfig)


def pod(name: str, script: str, *, image: str = TEST_IMAGE, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", script],
                }
            ],
            **spec,
        },
    }


def wait_for(api: ApiServer, name: str, *phases: str) -> dict[str, Any]:
    def status() -> dict[str, Any] | None:
        found: dict[str, Any] = api.get(f"{PODS}/{name}")["status"]
        return found if found["phase"] in phases else None

    found = wait_until(status, what=f"pod {name} to be {phases}")
    assert found is not None
    return found


def kubectl(cluster: Cluster, *words: str) -> str:
    done = subprocess.run(
        [cluster.binary("kubectl"), "--kubeconfig", cluster.kubeconfig, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_pods_run_and_end_with_their_exit_code(cluster: Cluster, api: ApiServer) -> None:
    api.create(PODS, pod("good", "echo hello"))
    api.create(PODS, pod("bad", "exit 42"))
    wait_for(api, "good", "Succeeded")
    ended = wait_for(api, "bad", "Failed")["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 42
    assert kubectl(cluster, "logs", "good") == "hello\n"


def test_a_peer_is_found_by_name_before_it_is_ready(api: ApiServer) -> None:
    api.create(
        SERVICES,
        {
            "metadata": {"name": "ring"},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"app": "listener"},
                "ports": [{"name": "tcp", "port": 7777}],
            },
        },
    )
    listener = pod("listener", "nc -l -p 7777", hostname="first", subdomain="ring")
    listener["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["false"]}}
    api.create(PODS, listener)
    api.create(
        PODS,
        pod(
            "caller",
            "until echo x | nc -w 2 first.ring.default.svc.cluster.local 7777; do sleep 0.2; done",
        ),
    )
    wait_for(api, "caller", "Succeeded")
    wait_for(api, "listener", "Succeeded")


def test_a_service_is_reached_from_this_machine(api: ApiServer) -> None:
    script = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 8080 -h /www"
    api.create(PODS, pod("web", script))
    api.create(
        SERVICES,
        {
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )
    address = api.get(f"{SERVICES}/web")["spec"]["clusterIP"]

    def fetch() -> str:
        connection = http.client.HTTPConnection(address, timeout=2)
        try:
            connection.request("GET", "/index.html")
            return connection.getresponse().read().decode()
        except OSError:
            return ""  # the rules for a new Service take a moment
        finally:
            connection.close()

    assert wait_until(fetch) == "hello\n"


@pytest.mark.proves(
    "cluster.md#commands/build-image-tag-folder-f-file-build-arg",
    "cluster.md#commands/load-image-tag",
    "cluster.md#images-without-a-registry",
)
def test_a_built_image_is_loaded_once_and_again_when_it_changed(
    cluster: Cluster, api: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        "ARG BASE_IMAGE=python:3.13-slim\nFROM ${BASE_IMAGE}\nCOPY word /word\n"
    )
    # What it imports of Python's library need not be compiled first.
    compiled = "python3 -B -c 'import asyncio, os; os.stat(asyncio.__cached__)'"
    for word in ("one", "two", "one"):
        (tmp_path / "word").write_text(word)
        image = cluster.build_image(tmp_path, "di-cluster-test:dev")
        assert image.reference == "localhost/di-cluster-test:dev"
        # Another source tree takes the name in between.
        (tmp_path / "word").write_text("other")
        cluster.build_image(tmp_path, "di-cluster-test:dev")
        cluster.load_image(image)
        reads = f'test "$(cat /word)" = {word} && {compiled}'
        api.create(PODS, pod("reader", reads, image=image.reference))
        wait_for(api, "reader", "Succeeded")
        kubectl(cluster, "delete", "pod", "reader", "--now")


def test_a_build_that_fails_shows_why(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "ARG BASE_IMAGE=x\nFROM ${BASE_IMAGE}\nRUN echo no such luck && exit 7\n"
    )
    with pytest.raises(ClusterError, match=r"(?s)cannot be built.*no such luck"):
        cluster.build_image(tmp_path, "di-cluster-test:broken")


@pytest.mark.proves("cluster.md#commands/up-profile-control-plane-node-nodes-n")
def test_a_second_node_joins_and_images_outlive_down(cluster: Cluster, api: ApiServer) -> None:
    Cluster(cluster.name, profile="node", nodes=2, reporter=Reporter(None)).up()
    nodes = {each["metadata"]["name"] for each in api.get("/api/v1/nodes")["items"]}
    assert nodes == {"node-0", "node-1"}
    api.create(PODS, pod("far", "nslookup kubernetes.default.svc.cluster.local", nodeName="node-1"))
    wait_for(api, "far", "Succeeded")
    cluster.down()
    cluster.up()
    api.create(PODS, pod("still-there", "true", image="localhost/di-cluster-test:dev"))
    wait_for(api, "still-there", "Succeeded")
