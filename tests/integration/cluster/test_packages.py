"""Missing Debian packages are named, and installed when we may."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from di_cluster.builds.packages import install
from di_cluster.errors import ClusterError
from di_cluster.preflight import Requirement, ensure_packages, missing_packages
from di_cluster.reporter import Reporter

QUIET = Reporter(None)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH without any program."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.proves("cluster.md#what-it-needs")
def test_each_missing_package_is_named_once(path: Path) -> None:
    program(path / "runc", "true")
    wanted = [
        Requirement("containerd", "containerd"),
        Requirement("ctr", "containerd"),
        Requirement("runc", "runc"),
        Requirement("static:/nowhere/busybox", "busybox-static"),
    ]
    assert missing_packages(wanted) == ["containerd", "busybox-static"]


def test_a_program_with_shared_libraries_is_not_static(tmp_path: Path) -> None:
    dynamic = tmp_path / "dynamic"
    dynamic.write_bytes(b"\x7fELF" + b"\0" * 100 + b"/lib64/ld-linux-x86-64.so.2\0")
    assert missing_packages([Requirement(f"static:{dynamic}", "busybox-static")])


@pytest.mark.usefixtures("path")
def test_a_machine_without_apt_is_told_what_is_missing() -> None:
    with pytest.raises(ClusterError, match=r"there is no apt-get: .*util-linux"):
        ensure_packages(node=False, images=False, reporter=QUIET)


def test_without_root_the_command_to_run_is_shown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(path / "apt-get", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match=r"run `apt-get install iproute2 util-linux mount`"):
        ensure_packages(node=False, images=False, reporter=QUIET)


@pytest.mark.proves("cluster.md#what-it-needs")
def test_missing_packages_are_installed_after_an_update(path: Path) -> None:
    calls = path / "calls"
    program(path / "apt-get", f'echo "$@" >> {calls}')
    ensure_packages(node=False, images=False, reporter=QUIET)
    assert calls.read_text().splitlines() == [
        "-qq update",
        "-qq -y --no-install-recommends install iproute2 util-linux mount",
    ]


def test_one_at_a_time_installs(path: Path) -> None:
    """What apt-get says to a second one is an error."""
    busy = path / "busy"
    program(path / "apt-get", f"/bin/mkdir {busy} || exit 100; /bin/sleep 0.05; /bin/rmdir {busy}")
    with ThreadPoolExecutor() as together:
        for each in [together.submit(install, ["jq"]) for _ in range(3)]:
            each.result()


def test_a_failed_installation_shows_its_words(path: Path) -> None:
    program(path / "apt-get", "echo E: no network; exit 100")
    with pytest.raises(ClusterError, match=r"(?s)cannot be installed.*E: no network"):
        ensure_packages(node=False, images=False, reporter=QUIET)
