"""Prometheus and promtool: those of the machine, or the distribution's package, unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from di_cluster.settings import Settings

_SECONDS = 300


def program(name: str) -> Path:
    """The path of `prometheus` or `promtool`; nothing is installed and nothing started.

    Raises RuntimeError if neither is there and the package cannot be fetched.
    """
    if (found := shutil.which(name)) is not None:
        return Path(found)
    folder = Settings.from_environment(os.environ).cache / "prometheus"
    if not (folder / "usr/bin" / name).exists():
        _unpack(folder)
    return folder / "usr/bin" / name


def _unpack(folder: Path) -> None:
    download = folder / "download"
    shutil.rmtree(folder, ignore_errors=True)
    download.mkdir(parents=True)
    fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
    if _run(fetch, download).returncode:
        _run(["apt-get", "-qq", "update"], download)  # the lists are missing or too old
        done = _run(fetch, download)
        if done.returncode:
            raise RuntimeError(f"apt-get cannot fetch prometheus: {done.stderr}")
    (package,) = download.glob("prometheus_*.deb")
    unpacked = _run(["dpkg-deb", "-x", str(package), str(folder)], download)
    if unpacked.returncode:
        raise RuntimeError(f"the package of prometheus cannot be unpacked: {unpacked.stderr}")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
