"""Prometheus and promtool: those of the machine, or the distribution's package, unpacked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from di_cluster.commands import run, succeeds
from di_cluster.settings import Settings
from di_cluster.workfolder import lock_file

_PROGRAMS: Final = ("prometheus", "promtool")
_SECONDS: Final = 300


def program(name: str) -> Path:
    """The path of `prometheus` or `promtool`; the package is fetched if it is missing.

    Raises:
        ClusterError: the package cannot be fetched.
    """
    if (found := present(name)) is None:
        fetch()
        return _folder() / "usr/bin" / name
    return found


def is_ready() -> bool:
    """Whether nothing has to be fetched."""
    return all(present(name) for name in _PROGRAMS)


def present(name: str) -> Path | None:
    """The path of a program that needs no fetching."""
    if (found := shutil.which(name)) is not None:
        return Path(found)
    unpacked = _folder() / "usr/bin" / name
    return unpacked if unpacked.exists() else None


def fetch() -> None:
    """Download the package and unpack it into the cache; needs no root if apt has its lists.

    Raises:
        ClusterError: apt-get cannot download it, or it cannot be unpacked.
    """
    folder = _folder()
    with lock_file(folder.with_name(".prometheus"), seconds=_SECONDS):
        if is_ready():
            return  # another process has fetched it while this one waited
        fresh = folder.with_name(f"prometheus-{os.getpid()}")
        download = fresh / "download"
        shutil.rmtree(folder, ignore_errors=True)
        download.mkdir(parents=True)
        command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
        try:
            if not succeeds(command, seconds=_SECONDS, cwd=download):
                run(["apt-get", "-qq", "update"], seconds=_SECONDS)  # the lists are missing or old
                run(command, seconds=_SECONDS, cwd=download)
            (package,) = download.glob("prometheus_*.deb")
            run(["dpkg-deb", "-x", package, fresh], seconds=_SECONDS)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _folder() -> Path:
    return Settings.from_environment(os.environ).cache / "prometheus"
