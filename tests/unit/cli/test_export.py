"""di export, against stand-ins of the API server and di-history."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tensorboardX.proto.event_pb2 import Event

from di_cli.exit_codes import ExitCode
from tests.fakes.history import Service, answering
from tests.fakes.otlp_metrics import MetricsReceiver, receiving
from tests.ports import held_port
from tests.unit.cli.conftest import JOBS, Di, job

VALUES = [0.1, 1 / 3, 1e300]
STARTED = 1772355600.0


@pytest.fixture
def service(di: Di, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with answering() as found:
        monkeypatch.setenv("DI_HISTORY_URL", found.url)
        di.world.put(f"{JOBS}/ppo", job("ppo", "Succeeded"))
        found.answers["/v1/jobs/rl/ppo"] = {"job": {"name": "ppo"}}
        found.answers["/v1/jobs/rl/ppo/series"] = {
            "samples": [
                {"at": f"2026-03-01T09:00:0{index}Z", "values": {"step": index * 100, "loss": each}}
                for index, each in enumerate(VALUES)
            ]
        }
        yield found


def events_in(folder: Path) -> list[Any]:
    """Return the events of the one file of a folder (TFRecord: length, its sum, data, its sum)."""
    (file,) = folder.iterdir()
    raw, found = file.read_bytes(), []
    while raw:
        (length,) = struct.unpack("<Q", raw[:8])
        found.append(Event.FromString(raw[12 : 12 + length]))
        raw = raw[16 + length :]
    return found


@pytest.mark.proves("tracking.md#curves-for-other-tools")
def test_event_files_have_values_steps_and_times_as_reported(
    di: Di, service: Service, tmp_path: Path
) -> None:
    said = di("export", "ppo", "-n", "rl", "--tensorboard", str(tmp_path / "runs"))
    folder = tmp_path / "runs/rl/ppo"
    assert (said.code, said.err, said.lines) == (0, "", [f"ppo: 6 points in {folder}"])
    found = [
        (event.wall_time, event.step, event.summary.value[0].tensor.double_val[0])
        for event in events_in(folder)
        if event.summary.value and event.summary.value[0].tag == "loss"
    ]
    assert found == [(STARTED + i, i * 100, each) for i, each in enumerate(VALUES)]
    again = di("export", "ppo", "-n", "rl", "--tensorboard", str(tmp_path / "runs"))
    assert again.code == ExitCode.USAGE
    assert "exists already" in again.err


@pytest.fixture
def collector() -> Iterator[MetricsReceiver]:
    with receiving() as found:
        yield found


@pytest.mark.proves("tracking.md#curves-for-other-tools")
@pytest.mark.parametrize("end", ["", "/", "/v1/metrics"])
def test_otlp_metrics_have_values_and_times_as_reported(
    di: Di, service: Service, collector: MetricsReceiver, end: str
) -> None:
    said = di("export", "ppo", "-n", "rl", "--otlp", f"{collector.url}{end}")
    assert (said.code, said.err) == (0, "")
    assert said.lines == [f"ppo: 6 points to {collector.url}{end.rstrip('/')}"]
    ((path, request),) = collector.requests
    assert path == "/v1/metrics"
    (of_resource,) = request.resource_metrics
    attributes = {each.key: each.value.string_value for each in of_resource.resource.attributes}
    assert attributes["k8s.namespace.name"] == "rl"
    assert attributes["di.job.name"] == "ppo"
    assert attributes["di.job.uid"] == "uid-ppo"
    points = collector.points()
    assert points["di.job.loss"] == [(STARTED + i, each) for i, each in enumerate(VALUES)]
    assert [value for _, value in points["di.job.step"]] == [0.0, 100.0, 200.0]


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Addresses that sockets connect to; looking up a name fails."""
    found: set[tuple[str, int]] = set()
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def connects(self: socket.socket, address: Any) -> None:
        found.add(address[:2])
        connect(self, address)

    def resolves(host: str, *rest: Any, **more: Any) -> Any:
        assert host == "127.0.0.1"
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket.socket, "connect", connects)
    monkeypatch.setattr(socket, "getaddrinfo", resolves)
    return found


@pytest.mark.proves("tracking.md#curves-for-other-tools")
def test_an_export_connects_to_its_sources_and_destination_alone(
    di: Di,
    service: Service,
    collector: MetricsReceiver,
    reached: set[tuple[str, int]],
    tmp_path: Path,
) -> None:
    sources = {address_of(di.world.url), address_of(service.url)}
    assert di("export", "ppo", "-n", "rl", "--tensorboard", str(tmp_path)).code == 0
    assert reached == sources
    assert di("export", "ppo", "-n", "rl", "--otlp", collector.url).code == 0
    assert reached == sources | {address_of(collector.url)}


def address_of(url: str) -> tuple[str, int]:
    found = urlsplit(url)
    assert found.hostname is not None
    assert found.port is not None
    return found.hostname, found.port


def test_a_refusal_of_an_otlp_receiver_has_its_reason(
    di: Di, service: Service, collector: MetricsReceiver
) -> None:
    collector.status = 400
    said = di("export", "ppo", "-n", "rl", "--otlp", collector.url)
    assert said.code == ExitCode.UNAVAILABLE
    assert f"the OTLP receiver at {collector.url}/v1/metrics did not accept" in said.err
    assert "400" in said.err
    assert di("export", "ppo", "--otlp", "collector:4318").code == ExitCode.USAGE


def test_without_opentelemetry_its_installation_is_the_remedy(
    di: Di, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics.export", None)
    said = di("export", "ppo", "-n", "rl", "--otlp", "http://127.0.0.1:1")
    assert "pip install opentelemetry-exporter-otlp-proto-http" in said.err


def test_a_job_without_a_history_has_its_last_report(di: Di, tmp_path: Path) -> None:
    at = {"step": 7, "reportedAt": "2026-03-01T09:00:00Z"}
    di.world.put(f"{JOBS}/a", job("a", "Running", progress=at, profilings={"loss": 0.5}))
    options = ["-n", "rl", "--server", "none", "--tensorboard", str(tmp_path)]
    assert di("export", "a", *options).lines == [f"a: 2 points in {tmp_path / 'rl/a'}"]
    di.world.put(f"{JOBS}/b", job("b", "Running", progress={}, profilings={}))
    assert di("export", "b", *options).err == "b has reported nothing\n"
    assert di("export", "c", *options).code == ExitCode.NOT_FOUND


def test_a_destination_is_needed(di: Di, service: Service) -> None:
    said = di("export", "ppo", "-n", "rl")
    assert (said.code, said.err.splitlines()[0]) == (
        ExitCode.USAGE,
        "error: di export needs a destination",
    )
    assert di("export", "ppo", "--mlflow", "sqlite:///m.db").code == ExitCode.USAGE


def test_an_unreachable_mlflow_is_named(di: Di, service: Service) -> None:
    with held_port() as port:
        said = di("export", "ppo", "-n", "rl", "--mlflow", f"http://127.0.0.1:{port}")
    assert said.code == ExitCode.UNAVAILABLE
    assert said.err.startswith(f"error: MLflow at http://127.0.0.1:{port} does not answer")


def test_a_refusal_of_mlflow_has_its_reason(di: Di, service: Service) -> None:
    # The stand-in of di-history knows no path of MLflow.
    said = di("export", "ppo", "-n", "rl", "--mlflow", service.url)
    assert said.code != ExitCode.DONE
    assert "MLflow refused experiments/create" in said.err
