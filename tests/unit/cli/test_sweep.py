"""di sweep: the first trials of a manifest, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import Di
from tests.unit.sweeps.sweeps import sweep


def _file(tmp_path: Path, **spec: object) -> str:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(sweep(**spec)))
    return str(path)


def test_a_dry_run_lists_the_trials_that_a_run_would_have(di: Di, tmp_path: Path) -> None:
    path = _file(tmp_path)
    said = di("sweep", "-f", path, "--dry-run", "--trials", "2")
    assert said.lines[0].split() == ["TRIAL", "LR"]
    assert [line.split()[0] for line in said.lines[1:3]] == ["tune-0", "tune-1"]
    assert said.lines[3] == "2 of 12 trials, 2 at a time"
    again = json.loads(di("sweep", "-f", path, "--dry-run", "-o", "json").out)
    assert len(again) == 10
    assert [str(each["parameters"]["lr"]) for each in again[:2]] == [
        line.split()[1] for line in said.lines[1:3]
    ]


@pytest.mark.proves("sweeps.md#what-is-refused")
def test_a_sweep_that_breaks_rules_is_refused_with_each_path(di: Di, tmp_path: Path) -> None:
    said = di("sweep", "-f", _file(tmp_path, maxTrials=0, color="red"), "--dry-run")
    assert said.code == ExitCode.FAILED
    assert "spec.maxTrials: 0: must be 1 or more" in said.err
    assert 'spec.color: "red": unknown field' in said.err


@pytest.mark.parametrize("words", [[], ["--local", "--dry-run"]])
def test_a_sweep_runs_here_or_is_listed(di: Di, tmp_path: Path, words: list[str]) -> None:
    said = di("sweep", "-f", _file(tmp_path), *words)
    assert said.code == ExitCode.USAGE
    assert "exactly one of --local and --dry-run" in said.err


def test_a_file_without_a_sweep_is_refused(di: Di, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: DIJob\nmetadata: {name: a}\n")
    assert "0 documents of kind DISweep" in di("sweep", "-f", str(path), "--dry-run").err
    assert "there is no file" in di("sweep", "-f", "no.yaml", "--dry-run").err
