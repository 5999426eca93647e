"""Sweeps of the Python client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.sweeps import load_sweep, trial_job
from di_orchestrator import jobs
from tests.unit.cli.conftest import JOBS, Di
from tests.unit.sweeps.sweeps import sweep
from tests.waiting import DEADLINE

Object = dict[str, Any]
SWEEPS = JOBS.replace("dijobs", "disweeps")
_DONE = {"type": "Complete", "status": "True", "reason": "TrialsEnded"}


def _status(di: Di, **status: Any) -> None:
    stored = di.world.objects[f"{SWEEPS}/tune"]
    di.world.put(f"{SWEEPS}/tune", {**stored, "status": status})


@pytest.mark.proves("from-python.md#sweeps")
@pytest.mark.parametrize("is_file", [False, True])
def test_a_sweep_is_created_and_waited_for(di: Di, tmp_path: Path, is_file: bool) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(sweep()))
    found = jobs.sweep(path if is_file else sweep(), parallelism=7)
    assert (found.name, found.namespace, found.best, found.is_over) == ("tune", "rl", None, False)
    assert found.manifest["spec"]["parallelism"] == 7
    best = {"trial": "tune-3", "value": 9.5, "parameters": {"lr": "0.01"}}
    _status(di, best=best, succeeded=12, conditions=[_DONE])
    assert found.wait(timeout=DEADLINE) is found
    assert found.is_over
    assert found.best == best
    assert found.status["succeeded"] == 12


@pytest.mark.proves("from-python.md#sweeps")
def test_the_trials_of_a_sweep_are_jobs(di: Di) -> None:
    jobs.sweep(sweep())
    for index in (1, 0):
        job = trial_job(sweep(), load_sweep(sweep()), index)
        job["metadata"] |= {"namespace": "rl", "uid": f"uid-{index}"}
        job["status"] = {"phase": "Running"}
        di.world.put(f"{JOBS}/tune-{index}", job)
    found = jobs.Client().get_sweep("tune")
    assert [(each.name, each.phase) for each in found.trials()] == [
        ("tune-0", "Running"),
        ("tune-1", "Running"),
    ]
    found.delete()
    assert f"{SWEEPS}/tune" not in di.world.objects
    with pytest.raises(jobs.NotFound):
        found.refresh()


@pytest.mark.proves("from-python.md#sweeps")
def test_a_sweep_is_stopped_from_python(di: Di) -> None:
    found = jobs.sweep(sweep())
    assert found.stop().manifest["spec"]["stop"] is True
    assert di.world.objects[f"{SWEEPS}/tune"]["spec"]["stop"] is True


def test_a_sweep_that_breaks_rules_is_refused_before_it_is_created(di: Di) -> None:
    with pytest.raises(jobs.JobsError, match=r"spec\.maxTrials"):
        jobs.sweep(sweep(maxTrials=0))
    assert f"{SWEEPS}/tune" not in di.world.objects


@pytest.mark.proves("from-python.md#sweeps")
def test_waiting_ends_for_an_invalid_sweep_and_after_its_time(di: Di) -> None:
    found = jobs.sweep(sweep())
    with pytest.raises(jobs.TimedOut, match="not over after 0 s"):
        found.wait(timeout=0)
    wrong = {"type": "Valid", "status": "False", "message": "spec.maxTrials: is required"}
    _status(di, conditions=[wrong])
    with pytest.raises(jobs.EndedOtherwise, match=r"spec\.maxTrials"):
        found.wait()
