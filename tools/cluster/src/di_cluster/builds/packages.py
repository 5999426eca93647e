"""Debian packages, installed for whoever needs them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from di_cluster.commands import run
from di_cluster.settings import Settings
from di_cluster.workfolder import lock_file

_SECONDS = 900.0


def install(packages: Sequence[str]) -> None:
    """Install packages, as root; one process at a time, since apt-get waits for no other one.

    Raises:
        CommandFailed: apt-get cannot, with its words.
        ClusterError: another process installs some for longer than fifteen minutes.
    """
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    cache = Settings.from_environment(os.environ).cache
    with lock_file(cache / ".packages", seconds=_SECONDS):
        run(["apt-get", "-qq", "update"], seconds=300, environment=environment)
        run(
            ["apt-get", "-qq", "-y", "--no-install-recommends", "install", *packages],
            seconds=_SECONDS,
            environment=environment,
        )
