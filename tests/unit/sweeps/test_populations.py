"""Population-based training: which trials are replaced, by copies of which, and with what."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from di_api.phase import Phase
from di_api.sweeps import (
    SweepSpec,
    Trial,
    copy_job,
    decide,
    load_sweep,
    missing_checkpoints,
    read_trial,
    summarize,
)
from di_api.sweeps.population import explored
from di_api.validation import validate_job
from tests.unit.sweeps.sweeps import LR, START, Cluster, Killed, Object, sweep, template

_SIZE = 4


def _population(**spec: Any) -> Object:
    """A population of four that is compared every ten steps."""
    saving = template()
    saving["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
    rule = {"size": _SIZE, "interval": 10, **spec.pop("population", {})}
    usual = {"maxTrials": None, "parallelism": _SIZE, "template": saving}
    return sweep(**{**usual, "population": rule, **spec})


def _spec(**spec: Any) -> SweepSpec:
    return load_sweep(_population(**spec))


def _running(index: int, value: float, step: int = 10, **more: Any) -> Trial:
    given = {"saved": step, "parameters": {"lr": 0.01 * (index + 1)}, **more}
    return Trial(index=index, phase=Phase.RUNNING, step=step, value=value, **given)


def _four(*values: float, **more: Any) -> list[Trial]:
    return [_running(index, value, **more) for index, value in enumerate(values)]


@pytest.mark.proves("sweeps.md#population-based-training")
def test_the_worst_trial_is_replaced_by_a_copy_of_the_best() -> None:
    found = decide(_spec(), _four(3.0, 9.0, 1.0, 5.0))
    (loser,) = (each for each in found.changed if each.stopped)
    assert loser.index == 2
    assert loser.stopped == "among the worst at step 10, replaced by a copy of trial 1"
    assert loser.copy is not None
    assert loser.copy.source == 1
    assert [each.judged for each in found.changed] == [10] * _SIZE
    # Its pods still run.
    assert not found.copies
    after = {each.index: each for each in found.changed}
    assert [index for index, _ in decide(_spec(), after.values()).copies] == [2 + _SIZE]
    assert not decide(_spec(), after.values(), ending=1).copies


@pytest.mark.proves("sweeps.md#population-based-training")
def test_smaller_values_are_better_with_minimize() -> None:
    spec = _spec(objective={"metric": "loss", "goal": "Minimize"})
    (loser,) = (each for each in decide(spec, _four(3.0, 9.0, 1.0, 5.0)).changed if each.copy)
    assert (loser.index, loser.copy and loser.copy.source) == (1, 2)


@pytest.mark.proves("sweeps.md#population-based-training")
def test_trials_are_compared_once_all_have_come_that_far() -> None:
    early = [*_four(3.0, 9.0, 1.0), _running(3, 5.0, step=9)]
    assert [each.judged for each in decide(_spec(), early).changed] == [0, 0, 0]
    waiting = [*_four(3.0, 9.0, 1.0), Trial(index=3)]
    assert not any(each.judged for each in decide(_spec(), waiting).changed)
    failed = [*_four(3.0, 9.0, 1.0), Trial(index=3, phase=Phase.FAILED)]
    assert [each.index for each in decide(_spec(), failed).changed if each.copy] == [2]


def test_a_trial_that_skips_a_comparison_counts_with_its_next_value() -> None:
    late = [*_four(3.0, 9.0, 1.0), _running(3, 0.5, step=25)]
    (loser,) = (each for each in decide(_spec(), late).changed if each.copy)
    assert loser.index == 3


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_trial_without_a_checkpoint_is_not_copied() -> None:
    spec = _spec()
    best_saves_nothing = _four(3.0, 9.0, 1.0, 5.0)
    best_saves_nothing[1] = _running(1, 9.0, saved=None)
    found = decide(spec, best_saves_nothing)
    assert not any(each.stopped for each in found.changed)
    assert not missing_checkpoints(spec, found.changed)
    unsaved = decide(spec, _four(3.0, 9.0, 1.0, 5.0, saved=None)).changed
    assert "no trial has reported a checkpoint" in missing_checkpoints(spec, unsaved)
    assert not missing_checkpoints(spec, _four(1.0, 2.0, 3.0, 4.0, saved=None))


def test_equal_trials_are_not_replaced() -> None:
    assert not any(each.copy for each in decide(_spec(), _four(1.0, 1.0, 1.0, 1.0)).changed)


@pytest.mark.proves("sweeps.md#budgets")
def test_copies_count_as_trials() -> None:
    five = _spec(maxTrials=5, population={"quantile": 0.5})
    found = decide(five, _four(3.0, 9.0, 1.0, 5.0))
    assert [each.index for each in found.changed if each.copy] == [2]
    four = decide(_spec(maxTrials=4), _four(3.0, 9.0, 1.0, 5.0))
    assert not any(each.copy for each in four.changed)


def test_a_used_up_budget_makes_no_copies() -> None:
    found = decide(_spec(stop=True), _four(3.0, 9.0, 1.0, 5.0))
    assert [each.stopped for each in found.changed] == ["spec.stop is set"] * _SIZE
    assert decide(_spec(stop=True), found.changed).is_over


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_copy_has_the_checkpoint_of_its_source_and_a_folder_of_its_own() -> None:
    manifest = _population()
    manifest["metadata"]["uid"] = "u1"
    spec = load_sweep(manifest)
    found = decide(spec, _four(3.0, 9.0, 1.0, 5.0))
    (index, replaced), *_ = decide(spec, found.changed).copies
    job = copy_job(manifest, spec, index, replaced)
    assert not validate_job(job)
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "DI_CHECKPOINT_DIR": "/checkpoint/tune-6.u1",
        "DI_RESTORE_FROM": "/checkpoint/tune-1.u1",
    }
    assert replaced.copy is not None
    parameters = dict(replaced.copy.parameters)
    assert json.loads(job["metadata"]["annotations"]["diengine/parameters"]) == parameters
    assert container["args"] == ["--lr", json.dumps(parameters["lr"])]
    trial = read_trial(job, spec, START)
    assert trial is not None
    assert (trial.index, trial.source, trial.born, trial.judged) == (6, 1, 10, 10)
    assert trial.parameters == parameters


_PARAMETERS = [
    LR,
    {"name": "u", "environment": "U", "uniform": {"min": -1, "max": 3}},
    {"name": "n", "environment": "N", "int": {"min": 1, "max": 9, "step": 2}},
    {"name": "q", "environment": "Q", "quniform": {"min": 0.1, "max": 0.5, "step": 0.1}},
    {"name": "v", "environment": "V", "values": ["a", "b", "c"]},
]


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_copy_has_larger_or_smaller_parameters() -> None:
    spec = _spec(parameters=_PARAMETERS, population={"resample": 0})
    assert spec.population is not None
    before: Mapping[str, Any] = {"lr": 0.01, "u": 1.0, "n": 5, "q": 0.3, "v": "b"}
    found = [explored(spec, spec.population, before, index) for index in range(40)]
    seen = {name: {each[name] for each in found} for name in before}
    assert seen == {
        "lr": {0.008, 0.012},
        "u": {0.8, 1.2},
        "n": {3, 7},
        "q": {0.2, 0.4},
        "v": {"a", "c"},
    }


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30), index=st.integers(0, 9999))
def test_parameters_of_copies_stay_in_their_space(seed: int, index: int) -> None:
    spec = _spec(parameters=_PARAMETERS, randomSeed=seed)
    assert spec.population is not None
    found: dict[str, Any] = {"lr": 0.1, "u": 3.0, "n": 9, "q": 0.5, "v": "c"}
    for generation in range(8):
        found = {**explored(spec, spec.population, found, index + generation)}
        assert 0.0001 <= found["lr"] <= 0.1
        assert -1 <= found["u"] <= 3
        assert found["n"] in (1, 3, 5, 7, 9)
        assert found["q"] in (0.1, 0.2, 0.3, 0.4, 0.5)
        assert found["v"] in ("a", "b", "c")


class _Growing(Cluster):
    """Trials whose value grows with each step by what their learning rate gives at that step."""

    @override
    def value_of(
        self, parameters: Mapping[str, Any], step: int, before: Mapping[str, Any]
    ) -> float:
        best = -1.5 - step / 40
        gain = math.exp(-((math.log10(parameters["lr"]) - best) ** 2) * 4)
        return float(before.get("episodeReturn", 0.0)) + gain


def _growing(**spec: Any) -> _Growing:
    return _Growing(_population(**spec), lambda *_: 0.0, last_step=80)


def _perhaps_killed(rng: Random) -> None:
    if rng.random() < 0.3:
        raise Killed


@pytest.mark.proves("sweeps.md#population-based-training")
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_process_killed_at_any_write_makes_no_copy_twice_and_decides_the_same(seed: int) -> None:
    rng = Random(seed)
    plain, killed = _growing(), _growing()
    is_over = False
    while not is_over:
        is_over = plain.reconcile()
        while True:
            try:
                killed.reconcile(lambda: _perhaps_killed(rng))
                break
            except Killed:
                pass
        order = rng.sample(range(_SIZE), k=rng.randint(1, _SIZE))
        for each in (plain, killed):
            each.work(iter(order), step=2)
    assert plain.jobs == killed.jobs
    assert len(set(killed.created)) == len(killed.created) > _SIZE
    assert sum(trial.copy is not None for trial in killed.trials()) == len(killed.created) - _SIZE


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_population_finds_more_than_as_many_trials_that_are_not_copied() -> None:
    found = {}
    for interval in (10, 1000):
        here = _growing(population={"interval": interval, "size": 8}, parallelism=8)
        while not here.reconcile():
            here.work(iter(range(8)))
        found[interval] = summarize(here.spec, here.trials()).value or 0.0
    assert found[10] > 1.4 * found[1000]
