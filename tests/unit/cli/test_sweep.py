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
    "words",
    [
        ["-f", "FILE", "--local", "--dry-run"],
        ["tune", "-f", "FILE"],
        ["--local"],
        ["tune", "--metric", "x"],
    ],
)
def test_contradicting_arguments_are_refused(di: Di, tmp_path: Path, words: list[str]) -> None:
    path = _file(tmp_path)
    said = di("sweep", *(path if word == "FILE" else word for word in words))
    assert said.code == ExitCode.USAGE


@pytest.mark.proves("sweeps.md#a-program-alone/*")
def test_arguments_with_ranges_and_lists_are_the_parameters(di: Di) -> None:
    ranges = [
        "--lr",
        "1e-5..0.1:log",
        "--momentum=0..1",
        "--layers",
        "1..4:1",
        "--clip",
        "0..2:0.5",
    ]
    rest = ["--optimizer", "adam,sgd", "--amp", "true,false", "--epochs", "3", "--fast", "data"]
    options = ["--metric", "loss", "--minimize", "--first-step", "10", "--trials", "16"]
    said = di("sweep", "ppo_mini.py", "--image", "ppo:1", *options, "--", *ranges, *rest)
    assert said.out == "disweep/ppo-mini created\n"
    spec = di.world.objects[f"{SWEEPS}/ppo-mini"]["spec"]
    found = {each.pop("name"): each for each in spec["parameters"]}
    assert {each.pop("argument") for each in spec["parameters"]} == {f"--{name}" for name in found}
    assert found == {
        "lr": {"logUniform": {"min": 1e-5, "max": 0.1}},
        "momentum": {"uniform": {"min": 0, "max": 1}},
        "layers": {"int": {"min": 1, "max": 4, "step": 1}},
        "clip": {"quniform": {"min": 0, "max": 2, "step": 0.5}},
        "optimizer": {"values": ["adam", "sgd"]},
        "amp": {"values": [True, False]},
    }
    assert spec["objective"] == {"metric": "loss", "goal": "Minimize"}
    assert (spec["maxTrials"], spec["earlyStopping"]) == (16, {"firstStep": 10})
    (task,) = spec["template"]["spec"]["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    assert (container["image"], container["command"], container["args"]) == (
        *("ppo:1", ["python3", "ppo_mini.py"]),
        ["--epochs", "3", "--fast", "data"],
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--local", "--", "--lr", "1"], "no argument of train.py has a range or a list"),
        (["--", "--lr", "1..2"], "the cluster has no train.py"),
    ],
)
def test_a_program_that_cannot_be_searched_is_refused(
    di: Di, words: list[str], message: str
) -> None:
    said = di("sweep", "train.py", *words)
    assert (said.code, message in said.err) == (ExitCode.USAGE, True)


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
