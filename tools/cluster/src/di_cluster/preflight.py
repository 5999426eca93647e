"""What a machine must have before a cluster is started, checked before anything is changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from di_cluster.builds.packages import install
from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed
from di_cluster.network import Network
from di_cluster.reporter import Reporter

GIB = 1 << 30
LONGEST_SOCKET = 107
"""Bytes of a Unix socket's path on Linux: sun_path without its final zero, of unix(7)."""
_CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something the machine must have and the Debian package that brings it."""

    what: str
    package: str


_BASE = (
    Requirement("ip", "iproute2"),
    Requirement("nsenter", "util-linux"),
    Requirement("unshare", "util-linux"),
    Requirement("mount", "mount"),
)
_NODE = (
    Requirement("containerd", "containerd"),
    Requirement("ctr", "containerd"),
    Requirement("runc", "runc"),
    Requirement("iptables", "iptables"),
    Requirement("cni:bridge", "containernetworking-plugins"),
    Requirement("static:/bin/busybox", "busybox-static"),
)
_IMAGES = (
    Requirement("buildah", "buildah"),
    Requirement("dpkg-deb", "dpkg"),
)


def require_root() -> None:
    """Refuse to go on without the rights to make namespaces, mounts and devices.

    Raises:
        ClusterError: we are not root.
    """
    if os.geteuid() != 0:
        raise ClusterError(
            "root is needed for namespaces, mounts and network devices: run it as root or with sudo"
        )


def require_disk(folder: Path, *, free: int, purpose: str) -> None:
    """Refuse to start what would fill the disk half-way.

    Args:
        folder: where it will be written (need not exist yet).
        free: bytes needed.
        purpose: what they are needed for.

    Raises:
        ClusterError: fewer bytes are free.
    """
    existing = folder
    while not existing.exists():
        existing = existing.parent
    available = shutil.disk_usage(existing).free
    if available < free:
        raise ClusterError(
            f"{purpose} needs {free / GIB:.1f} GiB free in {folder}, there are "
            f"{available / GIB:.1f} GiB: free some space or set DI_ORCHESTRATOR_CACHE to a folder "
            "on another disk"
        )


def require_short_paths(kubelet: Path) -> None:
    """Refuse a folder in which the kubelet could not bind its sockets.

    Args:
        kubelet: its root folder.

    Raises:
        ClusterError: the path of a socket would be too long.
    """
    # The kubelet names the socket by a number of 32 bits before it renames it.
    socket = kubelet / "pod-resources" / str((1 << 32) - 1)
    if (excess := len(os.fsencode(socket)) - LONGEST_SOCKET) > 0:
        raise ClusterError(
            f"the kubelet's socket would be {socket}, and a socket's path has at most "
            f"{LONGEST_SOCKET} bytes: set DI_ORCHESTRATOR_CACHE to a folder whose path is shorter "
            f"by {excess}"
        )


def networks_in_use() -> dict[IPv4Network, str]:
    """The machine's own IPv4 addresses and routes (default routes excluded), with devices."""
    return parse_networks(
        addresses=run(["ip", "-4", "-o", "addr", "show"]),
        routes=run(["ip", "-4", "route", "show", "table", "all"]),
    )


def parse_networks(*, addresses: str, routes: str) -> dict[IPv4Network, str]:
    """Networks in the output of `ip -o addr` and `ip route`, with the device of each."""
    used: dict[IPv4Network, str] = {}
    for line in addresses.splitlines():
        words = line.split()
        # An interface that goes away while it is listed has a line without an address.
        if "inet" in words:
            used[IPv4Network(words[words.index("inet") + 1], strict=False)] = words[1]
    for line in routes.splitlines():
        words = line.split()
        # "10.0.0.0/8 via ..." or, with a type before it, "blackhole 10.0.0.0/8".
        target = words[0] if words[0][0].isdigit() else words[min(1, len(words) - 1)]
        device = words[words.index("dev") + 1] if "dev" in words else words[0]
        try:
            network = IPv4Network(target)
        except ValueError:
            continue  # "default"
        if network.prefixlen > 0:
            used[network] = device
    return used


def network_conflict(network: Network, used: Mapping[IPv4Network, str]) -> str | None:
    """What on this machine overlaps a cluster's addresses; None if nothing does."""
    for other, device in used.items():
        if other.overlaps(network.whole):
            return f"{other} on {device}"
    return None


def ensure_packages(*, node: bool, images: bool, reporter: Reporter) -> None:
    """Install the Debian packages that are missing.

    Raises:
        ClusterError: something is missing and cannot be installed.
    """
    missing = packages_to_install(node=node, images=images)
    if not missing:
        return
    names = ", ".join(missing)
    if shutil.which("apt-get") is None:
        raise ClusterError(f"these programs are missing, and there is no apt-get: {names}")
    if os.geteuid() != 0:
        raise ClusterError(
            f"these packages are missing: {names}; run `apt-get install {' '.join(missing)}` as "
            "root or start di-cluster with sudo"
        )
    with reporter.step(f"installed {names}"):
        try:
            install(missing)
        except CommandFailed as error:
            raise ClusterError(f"{names} cannot be installed\n{error}") from error


def packages_to_install(*, node: bool, images: bool) -> list[str]:
    """The Debian packages that `ensure_packages` would install."""
    return missing_packages((*_BASE, *(_NODE if node else ()), *(_IMAGES if images else ())))


def missing_packages(requirements: Iterable[Requirement]) -> list[str]:
    """The packages of the requirements that the machine does not meet, each once."""
    missing = [each.package for each in requirements if not _is_met(each.what)]
    return list(dict.fromkeys(missing))


def cni_folder() -> Path:
    """The folder of the CNI plugins.

    Raises:
        ClusterError: they are not installed.
    """
    for folder in _CNI_FOLDERS:
        if (folder / "bridge").is_file():
            return folder
    raise ClusterError("the CNI plugins are not installed (containernetworking-plugins)")


def _is_met(what: str) -> bool:
    kind, _, name = what.rpartition(":")
    match kind:
        case "cni":
            return any((folder / name).is_file() for folder in _CNI_FOLDERS)
        case "static":
            return _is_static(Path(name))
        case _:
            return shutil.which(name) is not None


def _is_static(path: Path) -> bool:
    """Whether it is a program that needs no shared libraries (it will be alone in an image)."""
    try:
        # A dynamic ELF file names its loader (/lib64/ld-linux...) near its beginning.
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"\x7fELF") and b"/ld-" not in head
