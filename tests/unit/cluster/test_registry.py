"""Which cluster has which number."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_cluster.errors import ClusterError
from di_cluster.workfolder import Registry


def test_without_a_free_range_the_running_clusters_are_named(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for name in ("up", "stopped"):
        registry.register(name, nodes=1, is_free=lambda _: True)
    registry.folder("stopped").clear(purge=False)
    with pytest.raises(ClusterError, match=r"other clusters \(up\) or by"):
        registry.register("next", nodes=1, is_free=lambda _: False)
