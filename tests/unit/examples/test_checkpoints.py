"""A learner goes on where the last one was, and says so if it cannot."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from di_cartpole import learner
from di_cartpole.checkpoint import Checkpoint, Checkpoints, Lost
from di_cartpole.learner import PAIRS, Interrupted, Record, Training
from di_cartpole.policy import SIZE, Search, SearchSettings
from di_cartpole.work import Book
from typing_extensions import override

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


class Server:
    """A di-server that takes everything."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def scale(self, change: int) -> bool:
        return True

    def report(self, profilings: dict[str, Any]) -> None:
        self.reports.append(profilings)


class Playing(Book):
    """Every generation comes back at once, 12.5 seconds later; the second is the last."""

    def __init__(self, clock: list[float], leaving: threading.Event) -> None:
        super().__init__(clock=lambda: clock[0])
        self.played: list[int] = []
        self._now, self._leaving = clock, leaving

    @override
    def open(self, number: int, weights: list[float], seeds: list[int], *, sigma: float) -> None:
        super().open(number, weights, seeds, sigma=sigma)
        self.results(number, [(seed, 1.0, 2.0, 10) for seed in seeds])
        self._now[0] += 12.5
        self.played.append(number)
        if len(self.played) == 2:
            self._leaving.set()


def training(clock: float = 100.0) -> Training:
    return Training(
        seed=1,
        began=clock,
        search=Search(settings=SearchSettings(), seed=1),
        book=Book(clock=lambda: clock),
        record=Record(started=clock),
    )


@pytest.mark.parametrize("environment", [{}, {"DI_RESTORE_STEP": "5"}])
def test_without_a_directory_nothing_is_kept(environment: dict[str, str]) -> None:
    checkpoints = Checkpoints.from_environment(environment)
    assert not checkpoints.save(KEPT)
    assert checkpoints.load() is None


def test_what_is_saved_is_found_by_the_next_learner(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).save(KEPT)
    environment = {"DI_CHECKPOINT_DIR": str(tmp_path), "DI_RESTORE_STEP": "900"}
    assert Checkpoints.from_environment(environment).load() == KEPT


def test_what_an_earlier_job_left_is_not_gone_on_from(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(KEPT)
    assert Checkpoints(tmp_path).load() is None


@pytest.mark.parametrize("saved", [None, KEPT], ids=["nothing", "one before it"])
def test_a_step_that_was_saved_and_is_gone_is_an_error(
    tmp_path: Path, saved: Checkpoint | None
) -> None:
    if saved is not None:
        Checkpoints(tmp_path).save(saved)
    with pytest.raises(Lost, match="does not have step 901"):
        Checkpoints(tmp_path, reported=901).load()


def test_a_learner_that_dies_while_it_saves_leaves_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Checkpoints(tmp_path).save(KEPT)

    def dies(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("di_cartpole.checkpoint.os.fsync", dies)
    with pytest.raises(OSError, match="no space left"):
        Checkpoints(tmp_path).save(replace(KEPT, env_steps=5000))
    assert Checkpoints(tmp_path, reported=900).load() == KEPT


def test_a_training_goes_on_with_all_that_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_cartpole.learner.time.monotonic", lambda: 1000.0)
    first = training()
    first.go_on_from(KEPT)
    assert first.checkpoint() == KEPT
    assert first.record.started == 950.0
    report = first.record.profilings(first.book, generations=7)
    assert (report["checkpointStep"], report["envSteps"]) == (900, 900)
    assert report["curve"] == KEPT.curve


def test_a_learner_that_is_asked_to_leave_saves_first(tmp_path: Path) -> None:
    leaving = threading.Event()
    leaving.set()
    going = training()
    going.go_on_from(KEPT)
    with pytest.raises(Interrupted):
        learner._train(going, Server(), leaving, Checkpoints(tmp_path))  # type: ignore[arg-type]
    found = Checkpoints(tmp_path, reported=900).load()
    assert found is not None
    assert (found.generation, found.env_steps, found.curve) == (7, 900, KEPT.curve)


def test_a_learner_reports_how_long_it_took_to_go_on_and_what_it_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("di_cartpole.learner.time.monotonic", lambda: clock[0])
    going, server, leaving = training(1000.0), Server(), threading.Event()
    going.go_on_from(KEPT)
    book = Playing(clock, leaving)
    book.env_steps, going.book = going.book.env_steps, book
    with pytest.raises(Interrupted):
        learner._train(going, server, leaving, Checkpoints(tmp_path))  # type: ignore[arg-type]
    assert book.played == [7, 8]
    assert server.reports[0]["restoreSeconds"] == 12.5
    assert server.reports[0]["checkpointStep"] == 900 + 10 * PAIRS
    assert Checkpoints(tmp_path, reported=900 + 20 * PAIRS).load() is not None
