"""When the history is swept, and that its threads go on."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random
from typing import cast

import pytest
from sqlalchemy.exc import OperationalError

from di_history import keeping
from di_history.batches import Batches
from di_history.keeping import SWEEP_SECONDS, Keeper, SpoolSettings, sweep_is_due
from di_history.metrics import Metrics
from di_history.store.engine import open_engine
from di_history.store.retention import Retention, Swept
from di_kube.backoff import Backoff
from di_kube.config import KubeConfig
from tests.waiting import DEADLINE

GIB = 1 << 30


def test_a_sweep_comes_with_time() -> None:
    assert not sweep_is_due(waited=SWEEP_SECONDS - 1, unswept=0, size=GIB)
    assert sweep_is_due(waited=SWEEP_SECONDS, unswept=0, size=GIB)


def test_a_sweep_comes_earlier_when_much_was_written() -> None:
    """A tenant that fills the volume is bounded before it is full."""
    assert not sweep_is_due(waited=1, unswept=GIB // 64 - 1, size=GIB)
    assert sweep_is_due(waited=1, unswept=GIB // 64, size=GIB)


class Scripted:
    """Raises one error after the other, then returns; `done` is set after the last error."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = iter(errors)
        self.done = threading.Event()

    def __call__(self, *_: object, **__: object) -> Swept:
        error = next(self._errors, None)
        if error is not None:
            raise error
        self.done.set()
        return Swept(aged=0, crowded=0, size=0)


AWAY = OperationalError("SELECT", {}, Exception("away"))
DEFECT = ZeroDivisionError("a mistake of ours")


def test_every_thread_begins_again_whatever_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    follows, sweeps, writes = Scripted(AWAY, DEFECT), Scripted(AWAY, DEFECT), Scripted(DEFECT)

    class Follower:
        def __init__(self, **_: object) -> None:
            pass

        def followed(self) -> None:
            return None

        async def run(self) -> None:
            follows()

    monkeypatch.setattr(keeping, "Follower", Follower)
    monkeypatch.setattr(keeping, "sweep", sweeps)
    monkeypatch.setattr(keeping, "sweep_is_due", lambda **_: True)
    monkeypatch.setattr(Batches, "run", writes)
    monkeypatch.setattr(Batches, "drained", lambda *_: True)
    monkeypatch.setattr(Backoff, "delay", lambda _: 0.0)
    monkeypatch.setattr(keeping, "_LOOK_SECONDS", 0.01)
    metrics = Metrics()
    keeper = Keeper(
        engine=open_engine(f"sqlite:///{tmp_path}/history"),
        config=cast(KubeConfig, None),
        namespace=None,
        retention=Retention(age=1, size=GIB, job=GIB),
        price_label="",
        log_bytes=1,
        job_log_bytes=1,
        whole_logs=None,
        spool=SpoolSettings(folder=tmp_path, room=1, most=1),
        metrics=metrics,
        now=lambda: 0,
        clock=lambda: 0.0,
        rng=Random(1),
    )
    keeper.start()
    try:
        for each in (follows, sweeps, writes):
            assert each.done.wait(DEADLINE)
        assert keeper.is_ready
        assert metrics.restarts._value.get() >= 2
    finally:
        keeper.end()
