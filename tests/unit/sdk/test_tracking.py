"""What a program logs to an experiment tracker becomes the report of its job."""

from __future__ import annotations

import importlib
import logging
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from di_api import names
from di_api.profilings import numbers_of
from di_orchestrator.tracking.after_import import after_import
from di_orchestrator.tracking.forwarder import MOST_NAMES, Forwarder
from di_orchestrator.tracking.libraries import callbacks
from tests.unit.sdk.conftest import LEARNER
from tests.unit.server.fakes import Harness

PROGRAM = """
    import sys
    from tensorboardX import SummaryWriter

    with SummaryWriter(sys.argv[1]) as writer:
        for step in range(0, 300, 100):
            writer.add_scalar("charts/episodic_return", step * 1.5, step)
            writer.add_scalars("losses", {"value": 0.25, "policy": 0.5}, step)
            writer.add_text("note", "no number", step)
"""


def run(url: str | None, *words: str, where: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a learner's pod; without a URL outside a job."""
    environment = {**os.environ, **(LEARNER if url else {}), names.ENV_SERVER_URL: url or ""}
    return subprocess.run(
        [sys.executable, "-m", "di_orchestrator.tracking", *words],
        env=environment,
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.proves(
    "tracking.md#programs-that-log-to-a-tracker/tensorboard",
    "sdk.md#loops-of-other-libraries/python-m-di-orchestrator-tracking-train",
)
def test_a_program_that_knows_no_job_reports_its_curves(
    harness: Harness, url: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(dedent(PROGRAM))
    ended = run(url, "train.py", "events", where=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    numbers = numbers_of(harness.job()["status"])
    expected = {"charts/episodic_return": 300.0, "losses/policy": 0.5, "losses/value": 0.25}
    assert numbers == {**expected, "step": 200.0}
    assert [each.name for each in (tmp_path / "events").iterdir()], "the tracker gets everything"


def test_a_followed_program_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 3")
    (tmp_path / "train.py").write_text(
        "import sys, beside\nprint(__name__, sys.argv, __file__, beside.VALUE)\nsys.exit(5)"
    )
    ended = run(None, "train.py", "--lr", "1", where=tmp_path)
    expected = "__main__ ['train.py', '--lr', '1'] train.py 3\n"
    assert (ended.returncode, ended.stdout) == (5, expected)
    assert run(None, "-m", "train", where=tmp_path).returncode == 5
    lost = run(None, "nothing.py", where=tmp_path)
    assert (lost.returncode, lost.stderr) == (1, "nothing.py: no such file\n")
    assert "usage:" in run(None, where=tmp_path).stderr


class Reports:
    """Takes the place of the sender."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.has_own_step = False
        self.to = Forwarder(self._tell, has_own_step=lambda: self.has_own_step)

    def _tell(self, report: Mapping[str, Any]) -> None:
        assert "reportedAt" in report
        self.all.append({key: each for key, each in report.items() if key != "reportedAt"})

    @property
    def last(self) -> dict[str, Any]:
        return self.all[-1]


def test_the_longest_axis_is_the_step() -> None:
    reports = Reports()
    reports.to.scalars({"loss": 0.5}, 1000)
    reports.to.scalars({"epoch/score": 1.0}, 3)
    assert reports.last == {"loss": 0.5, "epoch/score": 1.0, "step": 1000.0}
    reports.has_own_step = True
    reports.to.scalars({"loss": 0.25}, 2000)
    assert reports.last == {"loss": 0.25, "epoch/score": 1.0}


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.array([0.5]), 0.5, Fraction(1, 2), np.array(0.5)]
)
def test_numbers_of_other_libraries_are_numbers(value: object) -> None:
    reports = Reports()
    reports.to.scalars({"loss": value}, np.int64(7))
    assert reports.last == {"loss": 0.5, "step": 7.0}


@pytest.mark.parametrize("value", ["0.5", True, None, np.zeros(2), [1], 10**400])
def test_what_is_no_number_is_not_reported(value: object) -> None:
    reports = Reports()
    reports.to.scalars({"loss": value}, 7)
    assert reports.all == []


def test_a_loss_that_is_no_number_any_more_is_reported_as_text() -> None:
    reports = Reports()
    reports.to.scalars({"loss": 0.5}, 1)
    reports.to.scalars({"loss": math.nan}, 2)
    assert reports.last == {"loss": "nan", "step": 2.0}


def test_names_of_di_server_and_too_many_names_stay_in_the_tracker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports = Reports()
    with caplog.at_level(logging.WARNING):
        reports.to.scalars({"learners": 900, "phase": 1.0, "x" * 121: 1.0, "step": 5}, 1)
        reports.to.scalars({f"m{index:03}": index for index in range(MOST_NAMES + 9)}, 2)
    assert sorted(reports.last) == [*(f"m{index:03}" for index in range(MOST_NAMES)), "step"]
    assert len(caplog.records) == 5
    reports.to.scalars({"m000": 7, "late": 1}, 3)
    assert (reports.last["m000"], reports.last["step"]) == (7.0, 3.0)
    assert "late" not in reports.last


def test_only_a_link_is_reported_as_the_page_of_the_run() -> None:
    reports = Reports()
    for url in (None, "sqlite:///m.db/#/runs/1", "javascript:alert(1)", "http://a b", "x"):
        reports.to.page(url)
    assert reports.all == []
    for _ in range(2):
        reports.to.page("https://tracker.example.org/#/runs/1")
    assert reports.all == [{"trackingURL": "https://tracker.example.org/#/runs/1"}]


def test_a_tracker_of_another_version_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    module = ModuleType("tensorboardX.writer")
    with caplog.at_level(logging.WARNING):
        callbacks(Reports().to)["tensorboardX.writer"](module)
    assert "has no SummaryWriter.add_scalar: its numbers are not reported" in caplog.text


def test_a_fault_of_ours_does_not_reach_the_program(caplog: pytest.LogCaptureFixture) -> None:
    class Run:
        step = 0

        def log(self, data: object) -> str:
            return f"logged {data}"

    module = ModuleType("wandb.sdk.wandb_run")
    module.Run = Run  # type: ignore[attr-defined]  # as the library's module has it
    callbacks(Reports().to)["wandb.sdk.wandb_run"](module)
    with caplog.at_level(logging.WARNING):
        assert Run().log("no mapping") == "logged no mapping"
    assert "a number was not reported" in caplog.text


def test_a_module_is_changed_before_names_are_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "di_tracked"
    package.mkdir()
    (package / "__init__.py").write_text("from di_tracked.inner import value")
    (package / "inner.py").write_text("value = 1\nclass Kept: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    changed = []

    def change(module: ModuleType) -> None:
        changed.append(module.__name__)
        module.value = 2  # type: ignore[attr-defined]  # of the module above

    after_import({"di_tracked.inner": change, "logging": change, "di_tracked.missing": change})
    found = importlib.import_module("di_tracked")
    assert (found.value, changed) == (2, ["logging", "di_tracked.inner"])
    inner = sys.modules["di_tracked.inner"]
    assert type(inner.__loader__) is type(found.__loader__)
    assert pickle.loads(pickle.dumps(inner.Kept)) is inner.Kept
    with pytest.raises(ModuleNotFoundError, match="di_tracked"):
        importlib.import_module("di_tracked.missing")
    for name in ("di_tracked", "di_tracked.inner"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(logging, "value")
