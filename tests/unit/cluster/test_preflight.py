"""What is refused before a cluster changes anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from di_cluster import preflight
from di_cluster.errors import ClusterError


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short, wherever pytest has its own."""
    with TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_path_is_refused_if_the_kubelet_could_bind_no_socket_there(short: Path) -> None:
    below = len("/pod-resources/4294967295")
    longest = short / ("x" * (preflight.LONGEST_SOCKET - below - len(str(short)) - 1))
    preflight.require_short_paths(longest)
    with pytest.raises(ClusterError, match=r"DI_ORCHESTRATOR_CACHE to a folder .* shorter by 1$"):
        preflight.require_short_paths(longest.with_name(longest.name + "x"))
    # The kernel draws the line at the same place.
    (longest / "pod-resources").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{longest}/pod-resources/4294967295")
    with socket.socket(socket.AF_UNIX) as bound, pytest.raises(OSError, match="too long"):
        bound.bind(f"{longest}/pod-resources/4294967295x")
