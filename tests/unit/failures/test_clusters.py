"""What a cluster shows of itself when a test fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from typing_extensions import override

from di_cluster.cluster import Cluster
from di_cluster.errors import ClusterError
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from tests.failures import clusters
from tests.failures.clusters import end_abandoned, objects, owned, running, shown_elsewhere
from tests.failures.sources import Sources


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    """Prints its arguments."""
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Sources:
    found = Sources(is_kept=True)
    monkeypatch.setattr(clusters, "SOURCES", found)
    return found


@pytest.mark.parametrize(
    ("namespace", "where"), [("test-1", "--namespace=test-1"), ("", "--all-namespaces")]
)
def test_objects_of_the_tests_namespace_are_asked_for(
    kubectl: Path, namespace: str, where: str
) -> None:
    asked = {
        name: question(namespace)
        for name, question in objects(lambda: kubectl, lambda: Path("admin")).items()
    }
    assert all(each.startswith("--kubeconfig admin --request-timeout=") for each in asked.values())
    for kind in ("dijobs", "dijobtasks", "pods", "leases"):
        assert asked[f"{kind}.yaml"].endswith(f"get {kind} --output=yaml {where}\n")
    assert "get --all-namespaces --output=wide events" in asked["events.txt"]


def test_the_services_logs_of_a_cluster_elsewhere_are_asked_for(
    kubectl: Path, sources: Sources
) -> None:
    with shown_elsewhere(lambda: kubectl, Path("admin"), services="di-system"):
        (source,) = sources.running
        assert "--namespace=di-system" in source.questions["services.log"]("")
        assert "pods.yaml" in source.questions


class Failing(Cluster):
    """Its API server does not come up, and its logs go when it is down, as those of any cluster."""

    @override
    def up(self) -> None:
        (self.logs / "kube-apiserver.log").write_text("unknown flag")
        pod = self.logs.parent / "nodes/node-0/pod-logs/default_a_1/main/0.log"
        pod.parent.mkdir(parents=True)
        pod.write_text("printed by a pod")
        raise ClusterError("kube-apiserver ended")


def test_the_logs_of_a_cluster_that_does_not_come_up_are_kept(
    tmp_path: Path, sources: Sources
) -> None:
    settings = Settings.from_environment({"DI_ORCHESTRATOR_CACHE": str(tmp_path)})
    cluster = Failing("broken", settings=settings, reporter=Reporter(None))
    cluster.logs.mkdir(parents=True)
    with pytest.raises(ClusterError, match="kube-apiserver ended"), running(cluster):
        pass
    assert not cluster.logs.exists()
    assert sources.ended == [
        (
            "broken",
            {
                "kube-apiserver.log": b"unknown flag",
                "pods/default_a_1-main-0.log": b"printed by a pod",
            },
        )
    ]


def test_clusters_of_a_killed_test_are_ended(tmp_path: Path) -> None:
    (tmp_path / "abandoned").touch()
    ended: list[str] = []
    with owned(tmp_path, "used"):
        end_abandoned(tmp_path, ended.append)
        end_abandoned(tmp_path, ended.append)
    assert ended == ["abandoned"]
    assert not list(tmp_path.iterdir())
