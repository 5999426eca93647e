"""A control plane comes up, runs beside others, survives faults and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from di_cluster.apiserver import ApiServer
from di_cluster.cgroups import Cgroups
from di_cluster.cluster import Cluster
from di_cluster.main import main
from di_cluster.process import Process
from di_cluster.reporter import Reporter
from di_cluster.workfolder import WorkFolder
from tests.failures.clusters import running
from tests.waiting import wait_until

QUIET = Reporter(None)
COMMAND = [sys.executable, "-m", "di_cluster.main"]


def folder(cluster: Cluster) -> WorkFolder:
    return WorkFolder(cluster.kubeconfig.parent)


def daemon(cluster: Cluster, name: str) -> Process:
    process = folder(cluster).pid_file(name).read()
    assert process is not None
    return process


def objects_outside(cluster: Cluster, addresses: str) -> dict[str, str]:
    """What a cluster could leave on the machine, by kind."""
    cgroups = Cgroups(folder(cluster).cgroup)
    block = addresses.split("/", maxsplit=1)[0].rsplit(".", 2)[0]
    routes = subprocess.run(
        ["ip", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=True
    ).stdout
    mounts = Path("/proc/self/mountinfo").read_text()
    processes = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(cluster.kubeconfig.parent) in command_line(entry)
    ]
    return {
        "control groups": " ".join(str(root) for root in cgroups.roots if root.exists()),
        "routes": "\n".join(line for line in routes.splitlines() if f"{block}." in line),
        "mounts": "\n".join(
            line for line in mounts.splitlines() if str(cluster.kubeconfig.parent) in line
        ),
        "processes": " ".join(processes),
    }


def command_line(process: Path) -> str:
    try:
        if process.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return ""  # dead; the machine's process 1 has yet to collect it
        return process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster("test-lifecycle", reporter=QUIET)
    cluster.down(purge=True)
    with running(cluster):
        yield cluster


@pytest.mark.proves("cluster.md#from-python")
def test_the_administrator_reads_and_writes(cluster: Cluster) -> None:
    api = ApiServer(cluster.kubeconfig)
    assert api.create("/api/v1/namespaces", {"metadata": {"name": "mine"}})
    assert api.get("/api/v1/namespaces/mine")["status"]["phase"] == "Active"
    assert not api.create("/api/v1/namespaces", {"metadata": {"name": "mine"}})


@pytest.mark.proves("cluster.md#commands/up-profile-control-plane-node-nodes-n")
def test_up_again_starts_nothing_anew(cluster: Cluster) -> None:
    before = {each.name: each.pid for each in cluster.status()}
    cluster.up()
    assert {each.name: each.pid for each in cluster.status()} == before
    assert None not in before.values()


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-local-cluster-does-not-come-up")
def test_up_restarts_what_was_killed_and_keeps_the_objects(cluster: Cluster) -> None:
    api = ApiServer(cluster.kubeconfig)
    api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    for name in ("etcd", "kube-apiserver", "kube-controller-manager"):
        daemon(cluster, name).kill()
        assert name in [each.name for each in cluster.status() if each.pid is None]
    cluster.up()
    assert api.get("/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
    assert all(each.pid is not None for each in cluster.status())


@pytest.mark.proves("cluster.md#how-it-works/the-host-as-seen-from-pods")
def test_a_process_on_this_machine_is_reached_from_the_cluster(cluster: Cluster) -> None:
    """Webhooks and controllers under development run outside the box."""
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "0", "--bind", cluster.host_address],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().split("port ")[1].split()[0]
        fetch = (
            "import urllib.request as r; "
            "o = r.build_opener(r.ProxyHandler({})); "
            f"print(o.open('http://{cluster.host_address}:{port}/', timeout=5).status)"
        )
        assert cluster.run_in_box([sys.executable, "-I", "-c", fetch]).strip() == "200"
    finally:
        server.kill()
        server.communicate()


def test_nothing_of_the_cluster_can_leave_the_machine(cluster: Cluster) -> None:
    routes = cluster.run_in_box(["ip", "-4", "route"])
    assert "default" not in routes


def test_clusters_run_side_by_side(cluster: Cluster) -> None:
    other = Cluster("test-beside", reporter=QUIET, api_server_args=["--audit-log-path=-"])
    other.up()
    try:
        assert other.addresses != cluster.addresses
        api, other_api = ApiServer(cluster.kubeconfig), ApiServer(other.kubeconfig)
        other_api.create("/api/v1/namespaces", {"metadata": {"name": "only-there"}})
        names = {each["metadata"]["name"] for each in api.get("/api/v1/namespaces")["items"]}
        assert "only-there" not in names
        argv = command_line(Path("/proc", str(daemon(other, "kube-apiserver").pid)))
        assert argv.rstrip().endswith("--audit-log-path=-")
    finally:
        other.down(purge=True)
    assert ApiServer(cluster.kubeconfig).ready()


@pytest.mark.proves(
    "cluster.md#commands/status", "cluster.md#commands/list", "cluster.md#commands/exec-program"
)
def test_the_command_shows_clusters_and_runs_programs_in_them(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        assert main([words[0], "--name", cluster.name, *words[1:]]) == 0
        return capsys.readouterr().out

    assert "kube-apiserver" in said("status")
    assert cluster.name in said("list").splitlines()
    assert said("exec", "echo", "inside") == "inside\n"


@pytest.mark.proves("cluster.md#commands/down-purge")
def test_down_leaves_nothing_behind() -> None:
    cluster = Cluster("test-down", reporter=QUIET)
    cluster.up()
    addresses = cluster.addresses
    assert all(
        text for kind, text in objects_outside(cluster, addresses).items() if kind != "mounts"
    )
    cluster.down()
    assert objects_outside(cluster, addresses) == dict.fromkeys(
        ("control groups", "routes", "mounts", "processes"), ""
    )
    assert not cluster.is_up
    cluster.down(purge=True)
    assert not cluster.kubeconfig.parent.exists()


def test_down_of_a_cluster_that_never_was_is_fine() -> None:
    Cluster("test-never", reporter=QUIET).down()


def test_a_killed_box_is_cleaned_up_by_the_next_up() -> None:
    cluster = Cluster("test-crash", reporter=QUIET)
    cluster.up()
    try:
        ApiServer(cluster.kubeconfig).create("/api/v1/namespaces", {"metadata": {"name": "gone"}})
        daemon(cluster, "init").kill()
        assert not cluster.is_up
        cluster.up()
        names = ApiServer(cluster.kubeconfig).get("/api/v1/namespaces")["items"]
        assert "gone" not in {each["metadata"]["name"] for each in names}
    finally:
        cluster.down(purge=True)


@pytest.mark.parametrize(
    "reached",
    [
        *(
            pytest.param(each, marks=pytest.mark.extended)
            for each in ("pki/ca.crt", "run/init.pid")
        ),
        "run/etcd.pid",
    ],
)
def test_an_up_that_was_killed_half_way_is_finished_by_the_next(reached: str) -> None:
    cluster = Cluster("test-half", reporter=QUIET)
    cluster.down(purge=True)
    cluster.prepare()
    started = subprocess.Popen(
        [*COMMAND, "up", "--profile", "control-plane", "--name", cluster.name],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until((folder(cluster).root / reached).exists, what=reached, every=0.001)
        assert started.poll() is None
        started.kill()
        started.wait(timeout=60)
        cluster.up()
        assert ApiServer(cluster.kubeconfig).ready()
    finally:
        started.kill()
        cluster.down(purge=True)


def test_a_daemon_whose_start_nobody_noted_is_not_there() -> None:
    cluster = Cluster("test-unnoted", reporter=QUIET)
    cluster.down(purge=True)
    dies = (
        "import os, sys; from di_cluster import box, main; "
        "box.Box._wait_for_daemon = lambda *_: os._exit(9); main.main(sys.argv[1:])"
    )
    options = ["up", "--profile", "control-plane", "--name", cluster.name]
    done = subprocess.run([sys.executable, "-c", dies, *options], timeout=300, check=False)
    try:
        assert done.returncode == 9
        # Its address would be taken.
        cluster.up()
        assert ApiServer(cluster.kubeconfig).ready()
    finally:
        cluster.down(purge=True)


def test_a_damaged_record_does_not_stop_down() -> None:
    cluster = Cluster("test-damaged", reporter=QUIET)
    cluster.up()
    addresses = cluster.addresses
    folder(cluster).state.write_text("{")
    cluster.down()
    left = objects_outside(cluster, addresses)
    assert left["processes"] == left["control groups"] == ""
    cluster.down(purge=True)


@pytest.mark.proves("cluster.md#commands/add-nodes-n-gpus-g-cpus-c", "cluster.md#simulated-nodes/*")
def test_simulated_pods_end_as_their_annotations_say(cluster: Cluster) -> None:
    api = ApiServer(cluster.kubeconfig)
    nodes = cluster.add_nodes(3, gpus=4, cpus=32)
    assert len(nodes) == 3
    assert api.get(f"/api/v1/nodes/{nodes[0]}")["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    pods = "/api/v1/namespaces/default/pods"
    for name, code in (("ends-well", "0"), ("ends-badly", "3")):
        api.create(
            pods,
            {
                "metadata": {
                    "name": name,
                    "annotations": {
                        "simulation.diengine/exit-code": code,
                        "simulation.diengine/run-for": "100ms",
                    },
                },
                "spec": {
                    "nodeSelector": {"type": "kwok"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "none"}],
                },
            },
        )

    def ended_pods() -> dict[str, Any]:
        found = {each["metadata"]["name"]: each["status"] for each in api.get(pods)["items"]}
        ended = all(each["phase"] in {"Succeeded", "Failed"} for each in found.values())
        return found if ended else {}

    found = wait_until(ended_pods)
    assert found["ends-well"]["phase"] == "Succeeded"
    ended = found["ends-badly"]["containerStatuses"][0]["state"]["terminated"]
    assert (found["ends-badly"]["phase"], ended["exitCode"]) == ("Failed", 3)
    assert len(cluster.add_nodes(2)) == 2
