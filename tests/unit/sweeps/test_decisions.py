"""Which trials are created and stopped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_api.phase import Phase
from di_api.sweeps import Trial, decide, summarize
from tests.unit.sweeps.sweeps import Cluster, Killed, spec_of, sweep

_HALVING = {"firstStep": 2, "reduction": 2}


def _running(index: int, step: int = 1, value: float = 0.0, **more: Any) -> Trial:
    return Trial(index=index, phase=Phase.RUNNING, step=step, value=value, **more)


def _quality(parameters: Mapping[str, Any], step: int) -> float:
    """The better the nearer to 0.01, and the later."""
    return step - abs(math.log10(parameters["lr"]) + 2) * 10


@pytest.mark.proves("sweeps.md#budgets")
def test_no_more_trials_run_at_once_than_parallelism() -> None:
    spec = spec_of(parallelism=3)
    assert list(decide(spec, []).create) == [0, 1, 2]
    assert list(decide(spec, [_running(0), _running(1)]).create) == [2]
    assert list(decide(spec, [_running(0)], ending=2).create) == []


@pytest.mark.proves("sweeps.md#budgets")
def test_a_trial_that_stops_counts_until_its_pods_have_ended() -> None:
    spec = spec_of(earlyStopping=_HALVING)
    first = _running(0, 2, 5.0, rungs={2: 5.0}, judged=2)
    found = decide(spec, [first, _running(1, 3, 4.0)])
    assert found.changed[0].stopped
    assert not found.create
    assert not decide(spec, [first, found.changed[0]], ending=1).create
    assert list(decide(spec, [first, found.changed[0]]).create) == [2]


@pytest.mark.proves("sweeps.md#budgets")
def test_a_stopped_sweep_stops_its_trials_and_creates_no_more() -> None:
    found = decide(spec_of(stop=True), [_running(0), Trial(index=1, phase=Phase.SUCCEEDED)])
    assert [(each.index, each.stopped) for each in found.changed] == [(0, "spec.stop is set")]
    assert not found.create
    assert found.exhausted
    assert decide(spec_of(stop=True), found.changed).is_over


def test_a_deleted_trial_is_not_created_again() -> None:
    assert list(decide(spec_of(), [_running(4), _running(5)]).create) == []
    assert list(decide(spec_of(), [], created=11).create) == [11]


def test_a_sweep_is_over_after_its_last_trial() -> None:
    spec = spec_of(maxTrials=2)
    ended = [Trial(index=index, phase=Phase.SUCCEEDED) for index in range(2)]
    assert decide(spec, ended).is_over
    assert not decide(spec, ended[:1]).is_over
    assert not decide(spec, ended, ending=1).is_over


@pytest.mark.proves("sweeps.md#budgets")
@pytest.mark.parametrize(
    ("budget", "trials", "elapsed"),
    [
        ({"maxSeconds": 60}, [_running(0)], 60.0),
        ({"maxGpuHours": 2.0}, [_running(0, gpus=4, seconds=1800.0)], 0.0),
        (
            {"maxFailedTrials": 1},
            [_running(0), *(Trial(index=i, phase=Phase.FAILED) for i in (1, 2))],
            0.0,
        ),
    ],
)
def test_a_used_up_budget_stops_all_trials(
    budget: Mapping[str, Any], trials: list[Trial], elapsed: float
) -> None:
    spec = spec_of(**budget)
    found = decide(spec, trials, elapsed=elapsed)
    assert next(iter(budget)) in found.exhausted
    assert [(each.index, each.stopped) for each in found.changed] == [(0, found.exhausted)]
    assert not found.create
    # Its pods still run.
    assert not found.is_over
    stopped = {each.index: each for each in found.changed}
    assert decide(spec, [stopped.get(each.index, each) for each in trials], elapsed=elapsed).is_over
    assert not decide(spec, trials[:1], elapsed=elapsed * 0.99 - 1).exhausted or elapsed == 0


@pytest.mark.proves("sweeps.md#early-stopping")
def test_a_trial_that_is_not_among_the_best_at_a_rung_stops() -> None:
    spec = spec_of(earlyStopping=_HALVING)
    before = [_running(0, 2, 5.0, rungs={2: 5.0}, judged=2), _running(1, 3, 4.0)]
    (changed,) = decide(spec, before).changed
    assert (changed.index, changed.rungs, changed.judged) == (1, {2: 4.0}, 2)
    assert changed.stopped == "not among the best at step 2"


@pytest.mark.proves("sweeps.md#early-stopping")
def test_smaller_values_are_better_with_minimize() -> None:
    spec = spec_of(
        earlyStopping=_HALVING, objective={"metric": "episodeReturn", "goal": "Minimize"}
    )
    before = [_running(0, 2, 5.0, rungs={2: 5.0}, judged=2), _running(1, 3, 4.0)]
    (changed,) = decide(spec, before).changed
    assert not changed.stopped


def test_a_trial_is_compared_once_at_each_rung() -> None:
    spec = spec_of(earlyStopping=_HALVING)
    kept = [_running(0, 3, 1.0, rungs={2: 1.0}, judged=2)]
    better = [_running(index, 3, 9.0, rungs={2: 9.0}, judged=2) for index in range(1, 4)]
    assert not decide(spec, kept + better).changed


def test_a_trial_before_its_first_report_is_not_compared() -> None:
    spec = spec_of(earlyStopping=_HALVING)
    assert not decide(spec, [Trial(index=0, phase=Phase.RUNNING, step=5)]).changed


@pytest.mark.proves("sweeps.md#seeds")
def test_seeds_of_a_choice_stop_together_by_their_mean() -> None:
    spec = spec_of(earlyStopping=_HALVING, seeds={"count": 2, "environment": "SEED"}, maxTrials=4)
    first = [_running(index, 2, 5.0, rungs={2: 5.0}, judged=2) for index in (0, 1)]
    alone = decide(spec, [*first, _running(2, 2, 9.0), _running(3, 1, 0.0)])
    assert [(each.index, each.stopped) for each in alone.changed] == [(2, "")]
    both = decide(spec, [*first, _running(2, 2, 9.0), _running(3, 2, 0.5)])
    assert [each.index for each in both.changed if each.stopped] == [2, 3]


def test_a_failed_seed_does_not_hold_up_the_others() -> None:
    spec = spec_of(earlyStopping=_HALVING, seeds={"count": 2, "environment": "SEED"}, maxTrials=4)
    (changed,) = decide(spec, [_running(0, 2, 1.0), Trial(index=1, phase=Phase.FAILED)]).changed
    assert (changed.index, changed.judged) == (0, 2)


@pytest.mark.proves("sweeps.md#the-best-trial")
def test_the_best_trial_is_that_of_the_best_mean_of_its_seeds() -> None:
    spec = spec_of(seeds={"count": 2, "environment": "SEED"}, maxTrials=6)
    values = [9.0, 1.0, 6.0, 6.0, 99.0, None]
    trials = [
        Trial(index=index, phase=Phase.SUCCEEDED, value=value) for index, value in enumerate(values)
    ]
    found = summarize(spec, trials)
    assert (found.best, found.value) == (2, 6.0)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_a_process_killed_at_any_write_creates_no_trial_twice(seed: int) -> None:
    here = Cluster(sweep(parallelism=3, earlyStopping=_HALVING), _quality, last_step=8)
    rng = Random(seed)

    def perhaps_killed() -> None:
        if rng.random() < 0.3:
            raise Killed

    for _ in range(1000):
        try:
            if here.reconcile(perhaps_killed):
                break
        except Killed:
            continue
        here.work(iter(rng.sample(range(3), k=rng.randint(0, 3))))
    assert here.created == [f"tune-{index}" for index in range(12)]
    assert all(not each.is_active for each in here.trials())
    assert summarize(here.spec, here.trials()).best is not None


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_kills_change_no_decision(seed: int) -> None:
    rng = Random(seed)
    plain, killed = (
        Cluster(sweep(parallelism=3, earlyStopping=_HALVING), _quality, last_step=8)
        for _ in range(2)
    )

    def perhaps_killed() -> None:
        if rng.random() < 0.3:
            raise Killed

    is_over = False
    while not is_over:
        is_over = plain.reconcile()
        while True:
            try:
                killed.reconcile(perhaps_killed)
                break
            except Killed:
                pass
        order = rng.sample(range(3), k=rng.randint(1, 3))
        plain.work(iter(order))
        killed.work(iter(order))
    assert plain.jobs == killed.jobs


@pytest.mark.proves("sweeps.md#early-stopping")
def test_halving_finds_the_best_of_64_with_a_third_of_the_steps() -> None:
    manifest = sweep(parallelism=8, maxTrials=64, earlyStopping={"firstStep": 3, "reduction": 3})
    here = Cluster(manifest, _quality, last_step=81)
    whole = Cluster(sweep(parallelism=8, maxTrials=64), _quality, last_step=81)
    for each in (here, whole):
        while not each.reconcile():
            each.work(iter(range(8)))
    best = summarize(whole.spec, whole.trials())
    assert whole.steps == 64 * 81
    assert summarize(here.spec, here.trials()).value == pytest.approx(best.value, rel=0.02)
    assert here.steps <= 0.3 * whole.steps
