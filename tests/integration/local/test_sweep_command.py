"""`di sweep --local` as a process, with programs that report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from di_local import runs, watchdog
from tests.programs import Program
from tests.unit.local.machine import FOR_EVER, task
from tests.waiting import DEADLINE, START_SECONDS

_CODE_OF_INTERRUPT = 130
_LEARNER = """
import os
import di_orchestrator as di
with di.training(total_steps=1) as run:
    run.report(1, score=float(os.environ["P"]))
"""


class Command:
    """Sweeps of one test."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path
        self.environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "COLUMNS": "200"}

    def start(self, program: str, *, saves: bool = False, **spec: object) -> Program:
        path = self.path / "sweep.yaml"
        container = {"command": [sys.executable, "-c", program]}
        template = {"spec": {"backoffLimit": 0, "tasks": [task("", pod={"container": container})]}}
        if saves:
            template["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
        usual = {
            "objective": {"metric": "score", "goal": "Minimize"},
            "sampler": "Grid",
            "parameters": [{"name": "p", "environment": "P", "values": [3, 1, 2]}],
            "template": template,
        }
        manifest = {
            "apiVersion": "diengine.opendilab.org/v2alpha1",
            "kind": "DISweep",
            "metadata": {"name": "tiny"},
            "spec": {**usual, **spec},
        }
        path.write_text(yaml.safe_dump(manifest))
        return Program(
            [Path(sys.executable).with_name("di"), "sweep", "-f", str(path), "--local"],
            cwd=self.path,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def the_run(self) -> runs.Run:
        (found,) = runs.runs(self.path / "di-orchestrator" / "runs")
        return found


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.mark.proves("sweeps.md#the-best-trial", "local.md#where-things-are/trials-json")
def test_the_best_of_all_trials_is_shown_and_kept(command: Command) -> None:
    process = command.start(_LEARNER)
    said, _ = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0, said
    assert "best: tiny-1  score 1  p=1" in said
    run = command.the_run()
    found = json.loads((run.directory / runs.TRIALS).read_text())
    assert {each["name"]: each["value"] for each in found["trials"]} == {
        "tiny-0": 3.0,
        "tiny-1": 1.0,
        "tiny-2": 2.0,
    }
    assert (found["best"], found["value"]) == (1, 1.0)
    assert not list(watchdog.marked(run.name))


_POPULATION = """
import json, os
import di_orchestrator as di
own = float(os.environ["P"])
with di.training(total_steps=60) as run:
    found = run.checkpoint.restore()
    state = json.loads(found.read_text()) if found else {"step": 0, "score": 0.0, "began": own}
    while state["step"] < 60 and not run.stopping:
        with run.iteration(samples=1):
            run.leaving.wait(0.1)
        state = {**state, "step": state["step"] + 1, "score": state["score"] + own}
        run.save(lambda path: path.write_text(json.dumps(state)), step=state["step"])
        run.report(state["step"], score=state["score"])
"""


@pytest.mark.proves("sweeps.md#population-based-training")
def test_copies_of_a_population_continue_from_the_weights_of_the_best(command: Command) -> None:
    process = command.start(
        _POPULATION,
        objective={"metric": "score"},
        sampler="Random",
        parameters=[{"name": "p", "environment": "P", "uniform": {"min": 0, "max": 1}}],
        population={"size": 3, "interval": 15},
        parallelism=3,
        maxTrials=6,
        saves=True,
    )
    said, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, said
    directory = command.the_run().directory
    found = json.loads((directory / runs.TRIALS).read_text())
    trials = {each["name"]: each for each in found["trials"]}
    copies = [each for each in trials.values() if "copyOf" in each]
    assert copies, said
    for each in copies:
        if each["state"] == "Succeeded":
            saved = directory / "checkpoints" / f"{each['name']}.{directory.name}"
            state = json.loads((saved / "checkpoint-60").read_text())
            first = each
            while "copyOf" in first:
                first = trials[first["copyOf"]]
            assert state["began"] == first["parameters"]["p"]
    assert any(each["state"] == "Succeeded" for each in copies)


@pytest.mark.proves("sweeps.md#without-a-cluster")
def test_an_interrupt_ends_all_trials_and_commands_find_them_before(command: Command) -> None:
    with command.start(f"print('begun', flush=True); {FOR_EVER}", parallelism=2) as process:
        di = Path(sys.executable).with_name("di")

        def logs(trial: str) -> str:
            done = subprocess.run(
                [di, "logs", trial, "--local"],
                env=command.environ,
                capture_output=True,
                text=True,
                check=False,
            )
            return done.stdout

        assert process.stdout is not None
        assert "TRIAL" in process.stdout.readline()
        for trial in ("tiny-0", "tiny-1"):
            while "begun" not in logs(trial):
                assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait(timeout=START_SECONDS) == _CODE_OF_INTERRUPT, said
        assert "2 trials" in said
    assert not list(watchdog.marked(command.the_run().name))
