"""`di-cluster` on a machine that lacks something: a clear message, and nothing half-done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from di_cluster.cluster import Cluster
from di_cluster.errors import ClusterError
from di_cluster.main import main
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings

QUIET = Reporter(None)
COMMAND = [sys.executable, "-m", "di_cluster.main"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that commands use."""
    monkeypatch.setenv("DI_ORCHESTRATOR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CLUSTER", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 16 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16M", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_up_without_root_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="root is needed"):
        Cluster("test-bad", reporter=QUIET).up()
    assert not cache.exists()


def test_the_command_without_root_and_sudo_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["down", "--name", "test-bad"]) == 1
    assert "there is no sudo: run it as root" in capsys.readouterr().err
    assert not cache.exists()


def test_up_without_disk_is_refused(small_disk: Path) -> None:
    settings = Settings.from_environment(
        {**os.environ, "DI_ORCHESTRATOR_CACHE": str(small_disk / "cache")}
    )
    with pytest.raises(ClusterError, match=r"cluster test-bad needs 1\.0 GiB free .* 0\.0 GiB"):
        Cluster("test-bad", settings=settings, reporter=QUIET).up()
    assert list(small_disk.iterdir()) == []


def test_up_is_refused_when_every_address_block_is_taken() -> None:
    """In a network namespace of its own, so that the machine's routes stay as they are."""
    take_and_up = (
        "ip link set lo up && ip route add blackhole 10.240.0.0/12 && "
        'exec "$@" up --profile control-plane --name test-taken'
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", take_and_up, "sh", *COMMAND],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "no address block is free" in done.stderr
    assert "Traceback" not in done.stderr
    assert not Cluster("test-taken", reporter=QUIET).is_up


def test_a_taken_address_block_is_passed_over() -> None:
    """The machine has an address in the first blocks: the next free one is used."""
    cluster = Cluster("test-next", reporter=QUIET)
    cluster.down(purge=True)
    take_and_up = (
        "ip link set lo up && ip addr add 10.240.0.254/24 dev lo && "
        "ip addr add 10.241.3.1/32 dev lo && "
        '"$@" up --profile control-plane --name test-next && "$@" status --name test-next; '
        '"$@" down --name test-next'
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", take_and_up, "sh", *COMMAND],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    cluster.down(purge=True)
    assert done.returncode == 0, done.stderr
    block = done.stdout.split("cluster test-next: ")[1].split(";")[0]
    assert block not in {"10.240.0.0/16", "10.241.0.0/16"}


@pytest.mark.parametrize("name", ["", "../x", "Upper", "a" * 41, "-x", "x-"])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str, cache: Path) -> None:
    assert main(["up", f"--name={name}"]) == 1
    with pytest.raises(ClusterError, match="must be 1 to 40"):
        Cluster(name, reporter=QUIET)
    assert not cache.exists()


@pytest.mark.parametrize("nodes", [0, -1, 11])
def test_a_number_of_nodes_out_of_range_is_refused(nodes: int, cache: Path) -> None:
    assert main(["up", "--nodes", str(nodes)]) == 1
    assert not cache.exists()


def test_words_that_are_no_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["add-nodes", "many"])
    assert ended.value.code == 2
    assert "invalid int value: 'many'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["add-nodes", "0"],
        ["add-nodes", "1", "--gpus", "-1"],
        ["add-nodes", "1", "--cpus", "0"],
        ["add-nodes", "1"],
        ["load-image", "x"],
        ["kubeconfig"],
        ["exec", "true"],
        ["build-image", "x", ".", "--build-arg", "novalue"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    error = capsys.readouterr().err
    assert error.startswith("di-cluster: ")
    assert len(error.splitlines()) == 1
    assert not (cache / "clusters" / "default" / "cluster.json").exists()


@pytest.mark.proves("cluster.md#when-something-goes-wrong")
def test_an_api_server_that_cannot_start_says_why() -> None:
    cluster = Cluster("test-refused", reporter=QUIET, api_server_args=["--no-such-flag=1"])
    try:
        with pytest.raises(ClusterError, match=r"unknown flag: --no-such-flag"):
            cluster.up()
    finally:
        cluster.down(purge=True)
    assert not cluster.kubeconfig.parent.exists()


def test_the_current_cluster_without_a_kubeconfig_is_refused(
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLUSTER", "current")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert main(["up"]) == 1
    assert "there is no kubeconfig" in capsys.readouterr().err
    assert not cache.exists()


@pytest.mark.proves("cluster.md#commands/kubeconfig", "cluster.md#another-cluster-instead")
def test_the_current_cluster_is_used_and_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster("test-current", reporter=QUIET)
    cluster.up()
    try:
        kubectl = cluster.binary("kubectl").parent
        monkeypatch.setenv("PATH", f"{kubectl}:{os.environ['PATH']}")
        monkeypatch.setenv("CLUSTER", "current")
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        assert main(["up"]) == 0
        assert "cluster of context test-current answers" in capsys.readouterr().err
        assert main(["kubeconfig"]) == 0
        assert capsys.readouterr().out.strip() == str(cluster.kubeconfig)
        assert main(["add-nodes", "3"]) == 1
        assert main(["down", "--purge"]) == 0
        assert cluster.is_up
    finally:
        cluster.down(purge=True)
