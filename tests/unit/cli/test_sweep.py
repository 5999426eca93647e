"""di sweep: the first trials of a manifest, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from di_api.sweeps import load_sweep, trial_job
from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import JOBS, Di
from tests.unit.sweeps.sweeps import sweep

SWEEPS = JOBS.replace("dijobs", "disweeps")


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


@pytest.mark.parametrize(
    "words", [["-f", "FILE", "--local", "--dry-run"], ["tune", "-f", "FILE"], ["--local"]]
)
def test_contradicting_arguments_are_refused(di: Di, tmp_path: Path, words: list[str]) -> None:
    path = _file(tmp_path)
    said = di("sweep", *(path if word == "FILE" else word for word in words))
    assert said.code == ExitCode.USAGE


@pytest.mark.proves("cli.md#sweeps")
def test_a_sweep_is_created_in_the_cluster(di: Di, tmp_path: Path) -> None:
    said = di("sweep", "-f", _file(tmp_path), "--parallelism", "5")
    assert said.out == "disweep/tune created\n"
    assert di.world.objects[f"{SWEEPS}/tune"]["spec"]["parallelism"] == 5
    assert di("sweep", "-f", _file(tmp_path, maxTrials=0)).code == ExitCode.FAILED


@pytest.mark.proves("cli.md#sweeps")
def test_sweeps_and_the_trials_of_one_are_listed(di: Di) -> None:
    assert "there are no sweeps in namespace rl" in di("sweep").out
    conditions = [{"type": "Valid", "status": "True"}, {"type": "Complete", "status": "False"}]
    status = {"created": 2, "running": 1, "stopped": 1, "conditions": conditions}
    status["best"] = {"trial": "tune-1", "value": 4.5}
    di.world.put(f"{SWEEPS}/tune", {**sweep(), "status": status})
    assert di("sweep").lines[1].split() == [
        "tune",
        "2",
        "1",
        "1",
        "0",
        "tune-1",
        "4.5",
        "InProgress",
    ]
    for index, value in enumerate((1.5, 4.5)):
        job = trial_job(sweep(), load_sweep(sweep()), index)
        stopped = {"diengine/rungs": '{"stopped": "behind"}'} if index == 0 else {}
        job["metadata"] |= {"namespace": "rl", "uid": f"uid-{index}"}
        job["metadata"]["annotations"] |= stopped
        job["status"] = {"phase": "Running", "profilings": {"step": 9, "episodeReturn": value}}
        di.world.put(f"{JOBS}/{job['metadata']['name']}", job)
    rows = [line.split() for line in di("sweep", "tune").lines]
    assert rows[0] == ["TRIAL", "STATE", "STEP", "EPISODERETURN", "PARAMETERS"]
    assert [row[:4] for row in rows[1:]] == [
        ["tune-0", "Stopped", "9", "1.5"],
        ["tune-1", "Running", "9", "4.5"],
    ]
    assert rows[1][4].startswith("lr=0.0")
    assert di("sweep", "none").code == ExitCode.NOT_FOUND


@pytest.mark.proves("cli.md#sweeps")
def test_a_sweep_is_stopped_for_good(di: Di) -> None:
    di.world.put(f"{SWEEPS}/tune", {**sweep(), "status": {}})
    assert di("sweep", "stop", "tune").out == "disweep/tune stopped\n"
    assert di.world.objects[f"{SWEEPS}/tune"]["spec"]["stop"] is True
    assert di("sweep", "stop", "none").code == ExitCode.NOT_FOUND
    for words in (["halt", "tune"], ["stop", "tune", "more"]):
        assert di("sweep", *words).code == ExitCode.USAGE


def test_a_file_without_a_sweep_is_refused(di: Di, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: DIJob\nmetadata: {name: a}\n")
    assert "0 documents of kind DISweep" in di("sweep", "-f", str(path), "--dry-run").err
    assert "there is no file" in di("sweep", "-f", "no.yaml", "--dry-run").err


def test_a_cluster_without_sweeps_is_named_as_the_reason(di: Di, tmp_path: Path) -> None:
    missing = {"code": 404, "reason": "NotFound", "message": "page not found"}
    di.world.refusals["POST", f"{SWEEPS}/tune"] = missing
    said = di("sweep", "-f", _file(tmp_path))
    assert said.code == ExitCode.NOT_FOUND
    assert "this cluster runs no sweeps" in said.err
    assert "di sweep -f FILE --local" in said.err
