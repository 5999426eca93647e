"""Sweeps of tiny programs, whose reports the test writes in their place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from di_api.names import LABEL_JOB
from di_api.sweeps import load_sweep
from di_kube.resources import DIJOBS, PODS
from di_local.addresses import Names, take_network
from di_local.manifest import Manifest
from di_local.run import Interrupts
from di_local.runs import Run
from di_local.sweep import SweepOutcome, Trials
from di_local.trials import TrialTable, number
from tests.unit.local.machine import FOR_EVER, Machine, machine, task
from tests.waiting import DEADLINE

Object = dict[str, Any]
_ALWAYS = {"name": "p", "environment": "P", "values": ["0", "1", "2", "3"]}


def _sweep(program: str, **spec: Any) -> Object:
    template = {"spec": {"backoffLimit": 0, "tasks": [task(program)]}}
    usual = {
        "objective": {"metric": "score"},
        "sampler": "Grid",
        "parameters": [_ALWAYS],
        "template": template,
    }
    metadata = {"name": "tiny", "namespace": "default"}
    return {"kind": "DISweep", "metadata": metadata, "spec": {**usual, **spec}}


class _Sweep:
    """A sweep on a machine, with the lines that it shows."""

    def __init__(self, here: Machine, sweep: Object, checkpoint: Path | None = None) -> None:
        self.here, self.lines, self.interrupts = here, list[str](), Interrupts()
        self.network = SimpleNamespace(forget=lambda name: None)
        started: Any = SimpleNamespace(
            plane=SimpleNamespace(objects=here.objects, failed=asyncio.Future()),
            kubelet=here.kubelet,
            network=self.network,
            directory=here.folder,
        )
        manifest = Manifest(job=sweep, beside=(), directory=here.folder)
        self.trials = Trials(
            manifest,
            started,
            checkpoint=checkpoint,
            say=lambda text: self.lines.append(text.plain),
        )

    async def run(self) -> SweepOutcome:
        exhausted = await self.trials.run(self.interrupts)
        return self.trials.outcome(exhausted, self.interrupts)

    def report(self, index: int, **numbers: float) -> None:
        job = self.here.objects.get(DIJOBS, "default", f"tiny-{index}")
        status = {**job["status"], "profilings": numbers}
        self.here.objects.replace(
            DIJOBS, "default", f"tiny-{index}", {**job, "status": status}, status=True
        )

    def judged(self) -> set[int]:
        """The steps that the trials were last compared at."""
        annotations = [each["metadata"]["annotations"] for each in self.here.objects.list(DIJOBS)]
        return {
            json.loads(each.get("diengine/rungs", "{}")).get("judged", 0) for each in annotations
        }

    def is_running(self, *indexes: int) -> bool:
        phases = {
            each["metadata"]["name"]: (each.get("status") or {}).get("phase")
            for each in self.here.objects.list(DIJOBS)
        }
        return all(phases.get(f"tiny-{index}") == "Running" for index in indexes)


def _at_once(here: Machine) -> int:
    """The largest number of trials that had pods at the same time."""
    pods: dict[str, str] = {}
    most = 0
    for change in here.changes:
        if change.plural == PODS.plural:
            pod = change.after or change.before or {}
            name = pod["metadata"]["name"]
            if change.after is None:
                pods.pop(name, None)
            else:
                pods[name] = pod["metadata"]["labels"][LABEL_JOB]
            most = max(most, len(set(pods.values())))
    return most


@pytest.mark.proves("sweeps.md#without-a-cluster")
def test_all_trials_run_and_no_more_than_two_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            sweep = _Sweep(here, _sweep("import os; print('p is', os.environ['P'])"))
            outcome = await sweep.run()
            assert outcome.summary.succeeded == 4
            assert _at_once(here) == 2
            assert [here.said(f"tiny-{index}-learner-0") for index in range(4)] == [
                f"p is {index}\n" for index in range(4)
            ]
            assert not here.objects.list(DIJOBS)

    asyncio.run(story())


@pytest.mark.proves("sweeps.md#without-a-cluster")
def test_a_trial_that_is_behind_gets_sigterm_and_the_next_one_runs(tmp_path: Path) -> None:
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('saved', flush=True)))\n"
        "print('up', flush=True)\n"
        "signal.pause()"
    )

    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            halving = {"firstStep": 10, "reduction": 2}
            sweep = _Sweep(here, _sweep(program, earlyStopping=halving))
            running = asyncio.create_task(sweep.run())
            await here.until(lambda: sweep.is_running(0, 1))
            await here.until(lambda: here.said("tiny-1-learner-0") == "up\n")
            sweep.report(0, step=10, score=5.0)
            sweep.report(1, step=11, score=4.0)
            await here.until(lambda: sweep.is_running(0, 2))
            assert here.said("tiny-1-learner-0") == "up\nsaved\n"
            sweep.interrupts()
            outcome = await running
            assert outcome.is_interrupted
            assert outcome.trials[1].stopped == "not among the best at step 10"
            assert outcome.trials[0].rungs == {10: 5.0}
            assert (outcome.summary.best, outcome.parameters) == (0, {"p": "0"})
            assert any("Stopped" in line and "tiny-1" in line for line in sweep.lines)
            record = sweep.trials.record(outcome.summary)
            assert json.loads(json.dumps(record))["trials"][1]["state"] == "Stopped"

    asyncio.run(story())


@pytest.mark.proves("sweeps.md#budgets")
def test_a_sweep_whose_trials_fail_ends_and_shows_the_first_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            program = "raise SystemExit('no such file')"
            sweep = _Sweep(here, _sweep(program, parallelism=1, maxFailedTrials=1))
            outcome = await sweep.run()
            assert outcome.summary.failed == 2
            assert "maxFailedTrials" in outcome.exhausted
            assert len([line for line in sweep.lines if "no such file" in line]) == 1

    asyncio.run(story())


def test_a_program_that_cannot_start_ends_the_sweep(tmp_path: Path) -> None:
    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            sweep = _Sweep(here, _sweep("import no_such_module", parallelism=1))
            outcome = await sweep.run()
            assert "No module named 'no_such_module'" in outcome.cannot_start
            assert len(outcome.trials) == 1

    asyncio.run(story())


@pytest.mark.proves("sweeps.md#checkpoints")
def test_each_trial_has_a_checkpoint_directory_of_its_own(tmp_path: Path) -> None:
    program = (
        "import os, pathlib\n"
        "pathlib.Path(os.environ['DI_CHECKPOINT_DIR'], 'p').write_text(os.environ['P'])"
    )

    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            saved = tmp_path / "saved"
            assert (await _Sweep(here, _sweep(program), saved).run()).summary.succeeded == 4
            found = {each.parent.name: each.read_text() for each in saved.glob("*/p")}
            assert found == {f"tiny-{index}": str(index) for index in range(4)}

    asyncio.run(story())


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_trial_of_a_population_is_replaced_by_a_copy_with_the_checkpoint(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal\n"
        "if 'DI_RESTORE_FROM' not in os.environ:\n"
        "    signal.pause()\n"
        "print(pathlib.Path(os.environ['DI_RESTORE_FROM'], 'w').read_text(), flush=True)"
    )

    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            body = _sweep(
                program,
                sampler="Random",
                parameters=[{"name": "p", "environment": "P", "uniform": {"min": 1, "max": 2}}],
                population={"size": 2, "interval": 10},
            )
            body["spec"]["template"]["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
            sweep = _Sweep(here, body)
            running = asyncio.create_task(sweep.run())
            await here.until(lambda: sweep.is_running(0, 1))
            saved = here.folder / "checkpoints" / f"tiny-0.{here.folder.name}" / "w"
            saved.write_text("weights of the best")
            sweep.report(0, step=10, score=5.0, checkpointStep=10)
            sweep.report(1, step=11, score=4.0, checkpointStep=11)
            await here.until(lambda: any("tiny-3" in line for line in sweep.lines))
            await here.until(lambda: here.said("tiny-3-learner-0") == "weights of the best\n")
            sweep.interrupts()
            outcome = await running
            assert "replaced by a copy of trial 0" in outcome.trials[1].stopped
            record = {each["name"]: each for each in sweep.trials.record(outcome.summary)["trials"]}
            assert record["tiny-3"]["copyOf"] == "tiny-0"
            assert record["tiny-3"]["parameters"] != record["tiny-0"]["parameters"]
            assert not any("no trial has reported" in line for line in sweep.lines)

    asyncio.run(story())


def test_a_population_that_saves_nothing_is_told_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            body = _sweep(
                FOR_EVER,
                sampler="Random",
                population={"size": 2, "interval": 10},
            )
            body["spec"]["template"]["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
            sweep = _Sweep(here, body)
            running = asyncio.create_task(sweep.run())
            await here.until(lambda: sweep.is_running(0, 1))
            for step in (10, 20):
                sweep.report(0, step=step, score=5.0)
                sweep.report(1, step=step, score=4.0)
                # A comparison of each step.
                await here.until(lambda step=step: sweep.judged() == {step})  # type: ignore[misc]  # a lambda of a loop
            sweep.interrupts()
            await running
            assert sum("no trial has reported a checkpoint" in line for line in sweep.lines) == 1

    asyncio.run(story())


@pytest.mark.proves("sweeps.md#budgets")
def test_a_sweep_ends_after_its_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with machine(tmp_path) as here, asyncio.timeout(DEADLINE):
            outcome = await _Sweep(here, _sweep(FOR_EVER, maxSeconds=1)).run()
            assert "maxSeconds" in outcome.exhausted
            assert outcome.summary.stopped == 2

    asyncio.run(story())


def test_names_of_trials_become_addresses() -> None:
    network = take_network(Random())
    try:
        names = Names(network, namespace="default", job="tiny", is_sweep=True)
        found = names.replaced("tiny-3-learner-0.di-tiny-3.default.svc.cluster.local:80")
        assert found == f"{network.address('tiny-3-learner-0')}:80"
        other = "other-3-learner-0.di-other-3.default.svc.cluster.local"
        assert names.replaced(other) == other
    finally:
        network.listener.close()


@pytest.mark.parametrize(
    ("job", "is_there"), [("tiny-0", True), ("tiny-12", True), ("tiny", False), ("tiny-x", False)]
)
def test_commands_find_a_trial_by_its_name(job: str, is_there: bool) -> None:
    fields: Mapping[str, Any] = {"namespace": "default", "pid": 1, "began": "", "url": ""}
    run = Run(name="r", job="tiny", directory=Path(), is_sweep=True, **fields)
    assert run.has(job) is is_there


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (12.0, "12"), (1234567.0, "1,234,567"), (0.123456789, "0.123457")],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert number(value) == text


def test_columns_are_as_wide_as_their_names() -> None:
    spec = load_sweep(_sweep(FOR_EVER, objective={"metric": "a-long-name-of-a-number"}))
    header = TrialTable(spec, "tiny").header()
    assert header.split() == [
        "TIME",
        "TRIAL",
        "STATE",
        "step",
        "a-long-name-of-a-number",
        "PARAMETERS",
    ]
