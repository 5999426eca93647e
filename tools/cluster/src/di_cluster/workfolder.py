"""The folder of one cluster and the registry that gives each its own number."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from di_cluster.errors import ClusterError
from di_cluster.network import MAX_CLUSTERS, Network
from di_cluster.process import PidFile

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


class WorkFolder:
    """Paths of one cluster's files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.root / "kubeconfigs"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def state(self) -> Path:
        return self.root / "cluster.json"

    def node(self, name: str) -> Path:
        return self.root / "nodes" / name

    @property
    def cgroup(self) -> str:
        """The name of its control groups."""
        return f"di-cluster-{self.name}"

    def pid_file(self, process: str) -> PidFile:
        return PidFile(self.run / f"{process}.pid")

    def pid_files(self) -> list[PidFile]:
        return [PidFile(path) for path in sorted(self.run.glob("*.pid"))]

    def clear(self, *, purge: bool) -> None:
        """Remove what belongs to one run; `purge` removes everything.

        Kept otherwise: certificates (so that a copied kubeconfig stays good), logs, and each
        node's image store.
        """
        if purge:
            shutil.rmtree(self.root, ignore_errors=True)
            return
        for folder in (self.run, self.etcd, self.config):
            shutil.rmtree(folder, ignore_errors=True)
        for node in (self.root / "nodes").glob("*"):
            for entry in node.iterdir():
                if entry.name == "images":
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What the registry remembers of a cluster.

    Attributes:
        number: decides its addresses.
        nodes: real nodes; none in a cluster that is only a control plane.
    """

    number: int
    nodes: int


class Registry:
    """All clusters of this machine's user, and who has which number."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, name: str) -> WorkFolder:
        """The work folder of a cluster (it need not exist).

        Raises:
            ClusterError: the name cannot be used for folders, cgroups and certificates.
        """
        if not _NAME.fullmatch(name):
            raise ClusterError(
                f"cluster name {name!r}: must be 1 to 40 lower-case letters, digits and dashes, "
                "with a letter or digit at both ends"
            )
        return WorkFolder(self.root / name)

    def names(self) -> list[str]:
        return sorted(path.parent.name for path in self.root.glob("*/cluster.json"))

    def registration(self, name: str) -> Registration | None:
        """What is known of a cluster; None if it has never been up or its record is damaged."""
        try:
            data = json.loads(self.folder(name).state.read_text())
            return Registration(number=int(data["number"]), nodes=int(data["nodes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def register(
        self, name: str, *, nodes: int, is_free: Callable[[Network], bool]
    ) -> Registration:
        """Give a cluster a number (its old one if it has one) and remember its shape.

        Args:
            name: the cluster.
            nodes: the number of real nodes.
            is_free: whether nothing else on this machine uses that network.

        Raises:
            ClusterError: all numbers are taken.
        """
        with self._locked():
            folder, known = self.folder(name), self.registration(name)
            active: set[int] = set()
            stopped: set[int] = set()
            for other_name in self.names():
                other = self.registration(other_name)
                if other_name != name and other is not None:
                    (active if self.folder(other_name).run.exists() else stopped).add(other.number)
            # Its own number first, and a stopped cluster's number last: that one would have to
            # get new certificates.
            candidates = [known.number] if known is not None else []
            candidates += sorted(range(MAX_CLUSTERS), key=lambda number: number in stopped)
            running = known is not None and folder.run.exists()
            for number in candidates:
                if running or (number not in active and is_free(Network(number))):
                    break
            else:
                blocks = f"{Network(0).whole} to {Network(MAX_CLUSTERS - 1).whole}"
                up = (each for each in self.names() if self.folder(each).run.exists())
                others = ", ".join(up) or "none"
                raise ClusterError(
                    f"no address block is free: {blocks} are all used by other clusters "
                    f"({others}) or by this machine's own addresses and routes; end a cluster "
                    "with `di-cluster down --name NAME`"
                )
            registration = Registration(number=number, nodes=nodes)
            # The run folder says that the number is in use; `down` removes it.
            folder.run.mkdir(parents=True, exist_ok=True)
            temporary = folder.state.with_suffix(".tmp")
            temporary.write_text(json.dumps({"number": number, "nodes": nodes}) + "\n")
            temporary.replace(folder.state)
            return registration

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with lock_file(self.root / ".lock", seconds=30):
            yield


def write_text(path: Path, text: str) -> Path:
    """Write a configuration file unless it already says so.

    A program that watches its configuration (kube-proxy) ends when the file is touched.
    """
    if not (path.is_file() and path.read_text() == text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path


def write_json(path: Path, body: Mapping[str, Any]) -> Path:
    """Write a configuration file as JSON (which is YAML, too) unless it already says so."""
    return write_text(path, json.dumps(body, indent=2) + "\n")


@contextmanager
def lock_file(path: Path, *, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock that dies with this process.

    Raises:
        ClusterError: another process holds it for longer than `seconds`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() >= deadline:
                raise ClusterError(f"another di-cluster holds {path} for over {seconds:g} s")
            time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
