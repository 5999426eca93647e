"""Numbers of a job through a real collector of OpenTelemetry."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from di_cluster.cluster import Cluster
from tests.fakes.history import answering
from tests.fakes.otlp_metrics import receiving
from tests.ports import held_port
from tests.unit.cli.conftest import JOBS, Di, job
from tests.waiting import ANSWER_SECONDS, START_SECONDS, STOP_SECONDS, wait_until

pytest_plugins = ["tests.unit.cli.conftest"]

VALUES = [0.1, 1 / 3, 1e300, 5e-324]
"""Not one of them is the same in four bytes."""
STARTED = 1772355600.0


@contextmanager
def collecting(folder: Path, behind: str) -> Iterator[str]:
    """The URL of a collector that sends all metrics on."""
    with held_port() as port, (folder / "collector.log").open("wb") as log:
        address = f"127.0.0.1:{port}"
        file = folder / "collector.yaml"
        file.write_text(yaml.safe_dump(_settings(address, behind)))
        process = subprocess.Popen(
            [Cluster().binary("otel-collector"), f"--config={file}"],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:

            def answers() -> bool:
                assert process.poll() is None, (folder / "collector.log").read_text()
                try:
                    # Any answer: it takes POST alone.
                    requests.get(f"http://{address}/v1/metrics", timeout=ANSWER_SECONDS)
                except requests.RequestException:
                    return False
                return True

            wait_until(answers, START_SECONDS, what="the collector")
            yield f"http://{address}"
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def _settings(address: str, behind: str) -> dict[str, Any]:
    sender = {
        "endpoint": behind,
        "compression": "none",
        # It answers once the metrics have been taken.
        "sending_queue": {"enabled": False},
    }
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
        "exporters": {"otlp_http": sender},
        "service": {
            "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["otlp_http"]}},
        },
    }


@pytest.mark.proves("tracking.md#curves-for-other-tools", "cluster.md#a-collector-of-opentelemetry")
def test_values_come_through_a_collector_equal_to_the_last_bit(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    di.world.put(f"{JOBS}/ppo", job("ppo", "Succeeded"))
    samples = [
        {"at": f"2026-03-01T09:00:0{index}Z", "values": {"step": index, "loss": each}}
        for index, each in enumerate(VALUES)
    ]
    with (
        answering() as history,
        receiving() as receiver,
        collecting(tmp_path, receiver.url) as url,
    ):
        monkeypatch.setenv("DI_HISTORY_URL", history.url)
        history.answers["/v1/jobs/rl/ppo"] = {"job": {"name": "ppo"}}
        history.answers["/v1/jobs/rl/ppo/series"] = {"samples": samples}
        said = di("export", "ppo", "-n", "rl", "--otlp", url)
        assert (said.code, said.err) == (0, "")
        assert receiver.points()["di.job.loss"] == [
            (STARTED + index, each) for index, each in enumerate(VALUES)
        ]
        ((_, request),) = receiver.requests
        (of_resource,) = request.resource_metrics
        names = {each.key: each.value.string_value for each in of_resource.resource.attributes}
        assert (names["k8s.namespace.name"], names["di.job.name"]) == ("rl", "ppo")
