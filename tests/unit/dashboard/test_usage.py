"""What the pods of a job use is read from metrics-server once for each measurement."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from di_dashboard.cluster_cache.usage import Usage, Use
from di_dashboard.session import read_metrics
from di_dashboard.views.pods import grid
from di_kube.config import KubeConfig
from di_kube.errors import NotFound, Unavailable
from di_kube.resources import POD_METRICS
from di_kube.sync import SyncKubeClient
from tests.unit.cli.conftest import pod

Object = dict[str, Any]
MIB = 1 << 20
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
METRICS = {
    "metadata": {"name": "x-learner-0"},
    "containers": [
        {"usage": {"cpu": "250m", "memory": "512Mi"}},
        {"usage": {"cpu": "1", "memory": "1Gi"}},
    ],
}


class _Server:
    """Counts how often it is read; `answers` is the next answer."""

    def __init__(self) -> None:
        self.now, self.reads, self.gpu_reads = 0.0, 0, 0
        self.answers: list[Object] | None = [METRICS]

    def read(self, namespace: str, job: str) -> list[Object]:
        self.reads += 1
        if self.answers is None:
            raise NotFound(kind="PodMetrics", message="not installed")
        return self.answers

    def read_gpus(self, namespace: str, job: str) -> list[Object]:
        self.gpu_reads += 1
        return [
            {"describedObject": {"name": "x-learner-0"}, "value": "87"},
            {"describedObject": {"name": "x-learner-1"}, "value": "12500m"},
            {"describedObject": {"name": "x-learner-2"}, "value": "?"},
            {},
        ]


def test_the_use_of_all_containers_is_read_once_for_each_measurement() -> None:
    server = _Server()
    usage = Usage(server.read, server.read_gpus, lambda: server.now)
    assert usage.of("rl", "x", gpus=False) == {"x-learner-0": Use(1.25, 1536 * MIB)}
    server.now = 14.0
    usage.of("rl", "x", gpus=False)
    assert server.reads == 1
    server.now = 15.0
    usage.of("rl", "x", gpus=False)
    usage.of("rl", "y", gpus=False)
    assert server.reads == 3


def test_without_a_metrics_server_nothing_is_shown_and_it_is_asked_rarely() -> None:
    server = _Server()
    server.answers = None
    usage = Usage(server.read, server.read_gpus, lambda: server.now)
    assert usage.of("rl", "x", gpus=False) == {}
    server.now = 59.0
    assert usage.of("rl", "x", gpus=False) == {}
    assert server.reads == 1
    server.now, server.answers = 60.0, [METRICS]
    assert usage.of("rl", "x", gpus=False)


def test_while_a_measurement_is_read_other_pages_show_the_last_one() -> None:
    server = _Server()
    others: list[Mapping[str, Use]] = []

    def read(namespace: str, job: str) -> list[Object]:
        if server.reads == len(others):
            server.reads += 1
            others.append(usage.of("rl", "x", gpus=False))
        return server.answers or []

    usage = Usage(read, server.read_gpus, lambda: server.now)
    shown = usage.of("rl", "x", gpus=False)
    # Before the first measurement there is none to show: the other page reads, too.
    assert others == [shown]
    server.now, server.answers = 15.0, []
    assert usage.of("rl", "x", gpus=False) == {}
    assert others == [shown, shown]


def test_a_page_does_not_wait_for_a_metrics_server_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("di_dashboard.session._METRICS_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = KubeConfig(server=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with SyncKubeClient(config=config, timeout=3600) as client, pytest.raises(Unavailable):
            read_metrics(client, POD_METRICS, "rl", "x")


def test_the_use_of_gpus_is_read_for_jobs_that_have_some() -> None:
    server = _Server()
    usage = Usage(server.read, server.read_gpus, lambda: server.now)
    usage.of("rl", "x", gpus=False)
    assert server.gpu_reads == 0
    found = usage.of("rl", "x", gpus=True)
    assert found["x-learner-0"] == Use(1.25, 1536 * MIB, 87)
    assert [found[f"x-learner-{index}"].gpus for index in (1, 2)] == [12.5, None]
    server.answers = None
    server.now = 15.0
    assert usage.of("rl", "x", gpus=True)["x-learner-0"] == Use(None, None, 87)


@pytest.mark.parametrize(
    ("used", "truth"), [(900, "uses 90% of its memory limit"), (899, ""), (None, "")]
)
def test_a_pod_that_uses_nearly_its_memory_limit_says_so(used: float | None, truth: str) -> None:
    body = pod("a", "learner", 0, 0)
    body["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1000"}}
    (line,) = grid([body], NOW, usage={"a-learner-0": Use(memory=used)})
    assert (line.cells[0].truth, line.cells[0].mood) == (truth, "good")
    del body["spec"]["containers"][0]["resources"]
    (line,) = grid([body], NOW, usage={"a-learner-0": Use(memory=used)})
    assert line.cells[0].truth == ""
