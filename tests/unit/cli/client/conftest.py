"""The Python client before a fake API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.code.conftest import folder, light
from tests.unit.cli.conftest import JOBS, Di, job

__all__ = ["folder", "light", "report"]


def report(di: Di, step: int, value: float, phase: str = "Running") -> None:
    """Put the job `train` with a report into the cluster."""
    at = f"2026-03-01T11:00:{step:02}Z"
    changes: dict[str, Any] = {
        "progress": {"step": step, "totalSteps": 10, "reportedAt": at},
        "profilings": {"step": step, "mean_return": value, "loss": {"policy": value / 2}},
    }
    di.world.put(f"{JOBS}/train", job("train", phase, **changes))


@pytest.fixture(autouse=True)
def no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DI_HISTORY_URL", raising=False)
