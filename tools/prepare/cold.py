"""An empty cache for one run, to see what a new machine sees.

`COLD=1` empties the cache of di-orchestrator; `COLD=all` those of Go and pip as well. `COLD=0` is
the same as none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from di_cluster.cluster import Cluster
from di_cluster.commands import run
from di_cluster.settings import Settings

VARIABLE: Final = "COLD"
_CACHES: Final = ("GOCACHE", "GOMODCACHE", "PIP_CACHE_DIR")


@contextmanager
def cache(environment: MutableMapping[str, str] = os.environ) -> Iterator[Path]:
    """Where the run's cache is: a new, empty folder if `COLD` is 1 or all, else the usual one.

    The environment names the new folder while the block runs, and `COLD` is not set in it: what
    the block starts uses the same folder. The folder is removed afterwards, with clusters in it
    that a killed test has left.

    Raises:
        SystemExit: `COLD` has another value than 0, 1 or all.
    """
    usual = Settings.from_environment(environment).cache
    cold = environment.get(VARIABLE, "")
    if cold in {"", "0"}:
        yield usual
        return
    if cold not in {"1", "all"}:
        raise SystemExit(f"COLD={cold}: it takes 0, 1 or all")
    usual.parent.mkdir(parents=True, exist_ok=True)
    # On the same disk: /tmp may be small, and the cache grows to many GiB. The name is short: the
    # kubelet has sockets below it, whose paths are limited.
    folder = Path(tempfile.mkdtemp(prefix="cold-", dir=usual.parent))
    changes = {"DI_ORCHESTRATOR_CACHE": str(folder), VARIABLE: ""}
    if cold == "all":
        changes |= {name: str(folder / name.lower()) for name in _CACHES}
    before = {name: environment.get(name) for name in changes}
    environment.update(changes)
    try:
        yield folder
    finally:
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        _remove(folder, Settings.from_environment({**environment, **changes}))


def _remove(folder: Path, settings: Settings) -> None:
    for name in Cluster(settings=settings).all_names():
        Cluster(name, settings=settings).down(purge=True)
    # The store of images mounts a folder onto itself.
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted(mounts, reverse=True):
        if Path(mount).is_relative_to(folder):
            run(["umount", "--lazy", mount])
    # Go makes the folders of its modules read-only.
    for path, folders, _ in os.walk(folder):
        for each in folders:
            if not (found := Path(path, each)).is_symlink():
                found.chmod(0o700)
    shutil.rmtree(folder)
