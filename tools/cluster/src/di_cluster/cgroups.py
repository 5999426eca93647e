"""The control groups of one cluster: one tree in each hierarchy, removed as a unit."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from di_cluster.errors import TimedOut
from di_cluster.waiting import wait_until

_MOUNT = Path("/sys/fs/cgroup")
_V2_CONTROLLERS = "cgroup.controllers"
_NEEDED = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")


class Cgroups:
    """The trees named `name` in every cgroup hierarchy (version 1, hybrid or 2)."""

    def __init__(self, name: str, *, mount: Path = _MOUNT) -> None:
        self.name = name
        self._mount = mount

    @property
    def roots(self) -> list[Path]:
        if self._is_v2:
            return [self._mount / self.name]
        return [
            hierarchy / self.name
            for hierarchy in sorted(self._mount.glob("*"))
            if not hierarchy.is_symlink() and (hierarchy / "cgroup.procs").exists()
        ]

    def create(self, child: str = "") -> None:
        """Make the trees (and below them `child`) with every controller handed down."""
        for root in self.roots:
            (root / child).mkdir(parents=True, exist_ok=True)
            if self._is_v2:
                _hand_down(self._mount)
                _hand_down(root)

    def remove(self) -> None:
        """Remove the trees. Their processes must have been killed.

        Raises:
            TimedOut: a group is still busy after five seconds.
        """
        try:
            wait_until(self._try_remove, seconds=5, what="control groups to be empty", every=0.02)
        except TimedOut as error:
            left = ", ".join(str(root) for root in self.roots if root.exists())
            raise TimedOut(f"processes are left in {left}; end them and try again") from error

    @property
    def exist(self) -> bool:
        return any(root.exists() for root in self.roots)

    @property
    def _is_v2(self) -> bool:
        return (self._mount / _V2_CONTROLLERS).exists()

    def _try_remove(self) -> bool:
        for root in self.roots:
            for folder, _, _ in os.walk(root, topdown=False):
                # Killed processes leave their group a moment after the kill.
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not self.exist


def _hand_down(group: Path) -> None:
    """Let the children of a version 2 group have the controllers that the group has."""
    available = (group / _V2_CONTROLLERS).read_text().split()
    for controller in _NEEDED:
        if controller in available:
            (group / "cgroup.subtree_control").write_text(f"+{controller}")
