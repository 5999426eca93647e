"""Trials that a study chooses, with a study in place of Optuna's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from di_cli.client.studies import optimize
from di_orchestrator import jobs
from tests.unit.cli.conftest import JOBS, Di
from tests.unit.sweeps.sweeps import LR, sweep, template


class State(Enum):
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3


class Trial:
    def __init__(self, study: Study) -> None:
        self.number = len(study.trials)
        self.params = {"lr": 0.01 * (self.number + 1)}
        self.reports: list[tuple[float, int]] = []
        self.result: tuple[Any, State] | None = None
        self._study = study

    def report(self, value: float, step: int) -> None:
        self.reports.append((value, step))

    def should_prune(self) -> bool:
        return self.number in self._study.pruned


class Study:
    """Asks for learning rates that rise, and records what it is told."""

    def __init__(self, *pruned: int, direction: str = "MAXIMIZE") -> None:
        self.pruned, self.directions = pruned, [SimpleNamespace(name=direction)]
        self.trials: list[Trial] = []
        self.distributions: dict[str, Any] = {}

    def ask(self, fixed_distributions: dict[str, Any]) -> Trial:
        self.distributions = fixed_distributions
        self.trials.append(Trial(self))
        return self.trials[-1]

    def tell(self, trial: Trial, values: Any = None, *, state: State) -> None:
        assert trial.result is None, "it is told once"
        trial.result = (values, state)


@pytest.fixture(autouse=True)
def optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules with what is used of Optuna's."""
    trial, distributions = ModuleType("optuna.trial"), ModuleType("optuna.distributions")
    trial.TrialState = State  # type: ignore[attr-defined]  # a module of this test
    for kind in ("Int", "Float", "Categorical"):
        made = f"{kind}Distribution"
        setattr(distributions, made, lambda *words, kind=kind, **more: (kind, words, more))
    monkeypatch.setitem(sys.modules, "optuna", ModuleType("optuna"))
    monkeypatch.setitem(sys.modules, "optuna.trial", trial)
    monkeypatch.setitem(sys.modules, "optuna.distributions", distributions)


def _run(
    di: Di, study: Study, manifest: dict[str, Any], phase_of: Callable[[int, int], str]
) -> list[str]:
    """Run a study; before each look at the jobs they report. Returns the largest number of
    jobs at a time, and the names of ended jobs.
    """
    client, ended, rounds = jobs.Client(), [], [0]

    def pause(_: float) -> None:
        rounds[0] += 1
        for path, job in list(di.world.objects.items()):
            if path.startswith(f"{JOBS}/tune-"):
                index = int(path.rpartition("-")[2])
                report = {"step": rounds[0], "episodeReturn": float(index)}
                status = {"phase": phase_of(index, rounds[0]), "profilings": report}
                di.world.put(path, {**job, "status": status})

    optimize(
        study,
        manifest,
        parallelism=None,
        submit=client.submit,
        end=lambda job: ended.append(job.name),
        pause=pause,
    )
    return ended


@pytest.mark.proves("sweeps.md#optuna")
def test_a_study_chooses_the_parameters_and_gets_each_report(di: Di) -> None:
    study = Study(1)
    ended = _run(di, study, sweep(maxTrials=4), lambda _, at: "Running" if at % 4 else "Succeeded")
    assert study.distributions == {"lr": ("Float", (0.0001, 0.1), {"log": True})}
    assert [each.result for each in study.trials] == [
        (0.0, State.COMPLETE),
        (None, State.PRUNED),
        (2.0, State.COMPLETE),
        (3.0, State.COMPLETE),
    ]
    assert ended == ["tune-1"]
    steps = [step for _, step in study.trials[0].reports]
    assert steps == sorted(set(steps))
    command = di.world.objects[f"{JOBS}/tune-2"]["spec"]["tasks"][0]["template"]["spec"]
    assert command["containers"][0]["args"] == ["--lr", "0.03"]


@pytest.mark.proves("sweeps.md#optuna")
def test_failed_trials_are_told_and_end_the_study_when_there_are_many(di: Di) -> None:
    study = Study()
    with pytest.raises(jobs.EndedOtherwise, match="2 trials have failed"):
        _run(
            di,
            study,
            sweep(maxFailedTrials=1, parallelism=3),
            lambda index, _: "Failed" if index < 2 else "Running",
        )
    assert {each.result for each in study.trials} == {(None, State.FAIL)}
    assert len(study.trials) == 3


def test_each_set_of_values_is_a_distribution(di: Di) -> None:
    study = Study()
    parameters = [
        LR,
        {"name": "a", "environment": "A", "values": ["x", 2, True]},
        {"name": "b", "environment": "B", "int": {"min": 1, "max": 8, "step": 3}},
        {"name": "c", "environment": "C", "uniform": {"min": 0, "max": 1}},
        {"name": "d", "environment": "D", "quniform": {"min": 0, "max": 1, "step": 0.5}},
    ]
    with pytest.raises(KeyError, match="a"):
        _run(di, study, sweep(parameters=parameters), lambda *_: "Running")
    del study.distributions["lr"]
    assert study.distributions == {
        "a": ("Categorical", (("x", 2, True),), {}),
        "b": ("Int", (1, 7), {"step": 3}),
        "c": ("Float", (0, 1), {}),
        "d": ("Float", (0, 1), {"step": 0.5}),
    }
    assert study.trials[0].result == (None, State.FAIL)


_SAVING = template()
_SAVING["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
_POPULATION = {"population": {"size": 2, "interval": 9}, "template": _SAVING}


@pytest.mark.usefixtures("di")
@pytest.mark.parametrize(
    ("study", "spec", "message"),
    [
        (Study(direction="MINIMIZE"), {}, "the study has the directions MINIMIZE"),
        (Study(), {"earlyStopping": {"firstStep": 1}}, "whose pruner stops trials"),
        (Study(), {"seeds": {"count": 2, "argument": "--seed"}}, "one value for each trial"),
        (Study(), _POPULATION, "which chooses all parameters"),
        (Study(), {"maxTrials": 0}, "the sweep breaks rules"),
    ],
)
@pytest.mark.proves("sweeps.md#optuna")
def test_what_a_study_decides_is_refused_in_a_sweep(
    study: Study, spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(jobs.JobsError, match=message):
        jobs.optimize(study, sweep(**spec))
    assert not study.trials


@pytest.mark.usefixtures("di")
def test_without_optuna_its_installation_is_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    with pytest.raises(jobs.JobsError) as refused:
        jobs.optimize(Study(), sweep())
    assert refused.value.remedy == "pip install optuna"
