"""Experiment trackers beside the reports of a job: real clients, and a real MLflow server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import requests

from di_api import names
from di_api.profilings import numbers_of, tracking_url_of
from tests.fakes.history import answering
from tests.ports import held_port
from tests.unit.cli.conftest import JOBS, Di, job
from tests.unit.sdk.conftest import LEARNER, serving
from tests.unit.server import fakes
from tests.waiting import ANSWER_SECONDS, START_SECONDS, wait_until
from tools.prepare.environments import TRACKERS

pytest_plugins = ["tests.unit.cli.conftest"]

ROOT = Path(__file__).resolve().parents[3]
MLFLOW = """
    import mlflow

    with mlflow.start_run() as run:
        mlflow.log_metric("loss", 0.25, step=7)
        mlflow.log_metrics({"kl": 1, "entropy": 2}, step=8)
        mlflow.MlflowClient().log_metric(run.info.run_id, "direct", 3.0, step=9)
    open("run", "w").write(run.info.run_id)
"""
WANDB = """
    import wandb

    with wandb.init(mode="offline", project="cartpole") as run:
        wandb.log({"eval/acc": 0.5, "nested": {"x": 1}})
        run.log({"eval/acc": 0.75, "picture": wandb.Histogram([1, 2, 3])})
"""
READ_EVENTS = """
    import json, sys
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0})
    found.Reload()
    points = [
        (each.wall_time, each.step, each.tensor_proto.double_val[0])
        for each in found.Tensors("loss")
    ]
    print(json.dumps(points))
"""
VALUES = [0.1, 1 / 3, 1e300, 5e-324]
"""Not one of them is the same in four bytes."""


@pytest.fixture
def harness() -> fakes.Harness:
    harness = fakes.make_harness(rate=1000, burst=1000)
    harness.add(fakes.job())
    harness.add_pods(fakes.pod("cartpole-learner-0", 0, "127.0.0.1", task="learner"))
    fakes.watch(harness)
    return harness


@pytest.fixture
def url(harness: fakes.Harness) -> Iterator[str]:
    """Where di-server answers."""
    yield from serving(harness)


@contextmanager
def mlflow_server(folder: Path) -> Iterator[str]:
    """The URL of an MLflow server with a database in a folder."""
    with held_port() as port, (folder / "mlflow.log").open("wb") as log:
        address = f"http://127.0.0.1:{port}"
        command = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        store = f"sqlite:///{folder / 'mlflow.db'}"
        server = subprocess.Popen(
            [TRACKERS.python(), "-m", "mlflow", *command, "--backend-store-uri", store],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:

            def answers() -> bool:
                assert server.poll() is None, (folder / "mlflow.log").read_text()
                try:
                    return requests.get(f"{address}/health", timeout=ANSWER_SECONDS).ok
                except requests.ConnectionError:
                    return False

            wait_until(answers, START_SECONDS)
            yield address
        finally:
            server.terminate()
            server.wait()


def follow(program: str, url: str, folder: Path, **variables: str) -> None:
    """Run a program in a learner's pod, with its trackers followed."""
    (folder / "train.py").write_text(dedent(program))
    subprocess.run(
        [TRACKERS.python(), "-m", "di_orchestrator.tracking", "train.py"],
        env={
            **os.environ,
            **LEARNER,
            names.ENV_SERVER_URL: url,
            "PYTHONPATH": str(ROOT / "sdk/src"),
            **variables,
        },
        cwd=folder,
        check=True,
    )


@pytest.mark.proves("tracking.md#programs-that-log-to-a-tracker/mlflow")
def test_metrics_of_mlflow_are_the_jobs_curves(
    harness: fakes.Harness, url: str, tmp_path: Path
) -> None:
    with mlflow_server(tmp_path) as server:
        follow(MLFLOW, url, tmp_path, MLFLOW_TRACKING_URI=server)
        run = (tmp_path / "run").read_text()
        page = f"{server}/#/runs/{run}"
        found = requests.get(
            f"{server}/api/2.0/mlflow/runs/get", {"run_id": run}, timeout=ANSWER_SECONDS
        ).json()
    metrics = {each["key"]: each["value"] for each in found["run"]["data"]["metrics"]}
    reported = numbers_of(harness.job()["status"])
    assert metrics == {"loss": 0.25, "kl": 1, "entropy": 2, "direct": 3}
    assert reported == {**metrics, "step": 9.0}
    assert tracking_url_of(harness.job()) == page


@pytest.mark.proves("tracking.md#programs-that-log-to-a-tracker/weights-biases")
def test_numbers_of_weights_and_biases_are_the_jobs_curves(
    harness: fakes.Harness, url: str, tmp_path: Path
) -> None:
    follow(WANDB, url, tmp_path, WANDB_DIR=str(tmp_path))
    reported = numbers_of(harness.job()["status"])
    assert reported == {"eval/acc": 0.75, "nested.x": 1.0, "step": 1.0}
    assert tracking_url_of(harness.job()) is None, "an offline run has no page"


def test_exported_curves_are_equal_to_the_bit(
    di: Di, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [
        {"at": f"2026-03-01T09:00:0{index}Z", "values": {"step": index * 100, "loss": each}}
        for index, each in enumerate(VALUES)
    ]
    expected = [(1772355600 + index, index * 100, each) for index, each in enumerate(VALUES)]
    di.world.put(f"{JOBS}/ppo", job("ppo", "Succeeded"))
    with answering() as service, mlflow_server(tmp_path) as server:
        monkeypatch.setenv("DI_HISTORY_URL", service.url)
        service.answers["/v1/jobs/rl/ppo"] = {"job": {"name": "ppo"}}
        service.answers["/v1/jobs/rl/ppo/series"] = {"samples": samples}
        for folder in ("first", "second"):
            to = ["--tensorboard", str(tmp_path / folder), "--mlflow", server]
            said = di("export", "ppo", "-n", "rl", *to)
            assert said.code == 0, said.err
        run = said.lines[-1].rpartition("/")[2]
        assert _of_mlflow(server, run) == expected
    read = subprocess.run(
        [TRACKERS.python(), "-c", dedent(READ_EVENTS), tmp_path / "first/rl/ppo"],
        capture_output=True,
        check=True,
    )
    assert [tuple(each) for each in json.loads(read.stdout)] == expected


def _of_mlflow(server: str, run: str) -> list[tuple[float, int, float]]:
    answer: Any = requests.get(
        f"{server}/api/2.0/mlflow/metrics/get-history",
        {"run_id": run, "metric_key": "loss"},
        timeout=ANSWER_SECONDS,
    ).json()
    return [(each["timestamp"] / 1000, each["step"], each["value"]) for each in answer["metrics"]]
