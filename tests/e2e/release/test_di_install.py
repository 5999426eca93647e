"""`di install` on a cluster with a release: what helm does with its values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from di_cli.install.plan import DOCKERFILES
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.release import TAG, Release
from tests.clones import ROOT
from tests.e2e.kubectl import Kubectl


@pytest.mark.proves("operations.md#in-one-command/values")
def test_di_install_keeps_values_and_replaces_no_pod_with_the_same_images(
    cluster: Cluster | CurrentCluster, release: Release, kubectl: Kubectl, tmp_path: Path
) -> None:
    def pods() -> set[str]:
        found = kubectl.items("pods", namespace=release.namespace)
        return {pod["metadata"]["uid"] for pod in found if _is_running(pod)}

    before = pods()
    programs = (Path(sys.executable).parent, cluster.binary("helm").parent)
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    tags = ",".join(f"{name}.image.tag={TAG}" for name in DOCKERFILES)
    done = subprocess.run(
        ["di", "install", "--no-build", "--registry", "localhost", "--set", tags],
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": path,
            "KUBECONFIG": str(cluster.kubeconfig),
            "XDG_CONFIG_HOME": str(tmp_path),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "di-orchestrator is upgraded" in done.stdout
    assert pods() == before


def _is_running(pod: dict[str, object]) -> bool:
    metadata = pod["metadata"]
    return isinstance(metadata, dict) and "deletionTimestamp" not in metadata
