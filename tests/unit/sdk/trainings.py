"""A training whose reports and clock are the test's."""

from __future__ import annotations

import os
import signal
from typing import Any

from di_orchestrator.job import Job
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.training import Training
from tests.unit.sdk.conftest import LEARNER, Clock


class Told:
    """Takes the place of the sender, whose thread has a test of its own."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.closed = False
        self.nodes: tuple[int, int] | None = None

    def tell(self, report: dict[str, Any]) -> None:
        self.reports.append(report)

    def close(self, seconds: float) -> bool:
        self.closed = True
        return True


def make(
    clock: Clock, told: Told | None = None, environment: dict[str, str] | None = None, **more: Any
) -> Training:
    job = Job.of(LEARNER if environment is None else environment)
    known = {"known": {}, "is_test": True, **more}
    checkpoint = known.pop("checkpoint", None) or Checkpoints(clock=clock)
    return Training(job, told, checkpoint, clock=clock, **known)  # type: ignore[arg-type]


def leave() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


# ------------------------------------------------------------ against the real di-server


def train(run: Training, clock: Clock, laps: int, *, waiting: float, stale: int = 0) -> None:
    for _ in range(laps + 1):
        with run.iteration(samples=10, stale=stale):
            clock.pass_(1 - waiting)
        clock.pass_(waiting)
