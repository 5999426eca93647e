"""A learner resumes at the last checkpoint."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from di_cartpole import learner
from di_cartpole.learner import Checkpoint, Interrupted, Record, Training
from di_cartpole.policy import SIZE, Search, SearchSettings
from di_cartpole.work import Book

import di_orchestrator as di
from di_orchestrator.job import Job
from di_orchestrator.training_run.checkpoint import Checkpoints

KEPT = Checkpoint(
    generation=7,
    env_steps=900,
    seconds=50.0,
    weights=[0.5] * SIZE,
    velocity=[0.25] * SIZE,
    curve=[[1.0, 100, 20.0], [40.0, 800, 60.0]],
    scaling=[[12.0, 2]],
    extra=2,
)


class Told:
    """In place of the thread that sends reports."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def tell(self, report: dict[str, Any]) -> None:
        self.reports.append(report)

    def close(self, seconds: float) -> bool:
        return True


def leave() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def _term() -> Iterator[None]:
    """SIGTERM is the training's."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) == before


def here(folder: Path, *, restored: int | None = None, told: Told | None = None) -> di.Training:
    kept = Checkpoints(folder, restored, every_seconds=0)
    return di.Training(Job(), told, kept, known={})  # type: ignore[arg-type]


def training(book: Book | None = None) -> Training:
    return Training(
        seed=1,
        search=Search(settings=SearchSettings(), seed=1),
        book=book or Book(clock=lambda: 0.0),
        record=Record(started=100.0),
    )


def found(folder: Path, step: int) -> Checkpoint:
    path = Checkpoints(folder, step).restore()
    assert path is not None
    return Checkpoint(**json.loads(path.read_text()))


def test_a_training_resumes_with_its_whole_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_cartpole.learner.time.monotonic", lambda: 1000.0)
    first = training()
    first.go_on_from(KEPT)
    assert first.checkpoint() == KEPT
    assert first.record.started == 950.0
    report = first.record.report(first.book)
    assert (report["env_steps"], report["curve"]) == (900, KEPT.curve)


def test_a_leaving_learner_saves_first(tmp_path: Path) -> None:
    going = training()
    going.go_on_from(KEPT)
    with here(tmp_path) as run:
        leave()
        with pytest.raises(Interrupted):
            learner.train(going, run)
    kept = found(tmp_path, 900)
    assert (kept.generation, kept.env_steps, kept.curve) == (7, 900, KEPT.curve)


def test_the_next_learner_starts_at_the_saved_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with here(tmp_path) as run:
        going = training()
        going.go_on_from(KEPT)
        learner._save(going, run)
    monkeypatch.setenv("DI_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("DI_RESTORE_STEP", "900")
    went_on: list[Training] = []
    monkeypatch.setattr(di, "Hub", lambda *_: nullcontext())
    monkeypatch.setattr(learner, "train", lambda training, _: went_on.append(training))
    monkeypatch.setattr(learner, "_farewell", lambda _: None)
    learner.run(seed=1)
    assert went_on[0].generation == KEPT.generation
    monkeypatch.setenv("DI_RESTORE_STEP", "901")
    with pytest.raises(di.CheckpointLost, match="step 901"):
        learner.run(seed=1)
