"""Asynchronous successive halving (ASHA), in its form that stops trials.

Trials are compared at rungs, at `firstStep`, `reduction` times as many steps, and so on. A trial
that is not among the best `1/reduction` of those that have reached the rung is stopped; no trial
waits for others. L. Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020;
the form without pauses is that of A. Klein et al., "Model-based Asynchronous Hyperparameter and
Neural Architecture Search", 2020, arXiv:2003.10865, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from di_api.phase import Phase
from di_api.sweeps.spec import EarlyStopping, Goal
from di_api.sweeps.trial import Trial


def after_comparison(
    choices: Mapping[int, Sequence[Trial]], rule: EarlyStopping, goal: Goal, seeds: int
) -> Iterator[Trial]:
    """Yield the trials whose record changes: a value at a rung, a comparison, or their stop.

    Args:
        choices: the trials of each choice of parameters.
        rule: where trials are compared.
        goal: which values are better.
        seeds: number of trials of a complete choice; they are compared by their mean.
    """
    before = {each.index: each for trials in choices.values() for each in trials}
    after = {choice: [_reached(t, rule) for t in trials] for choice, trials in choices.items()}
    means = {choice: dict(_means(trials, seeds)) for choice, trials in after.items()}
    for choice, trials in after.items():
        judged = max((each.judged for each in trials), default=0)
        stopped = next((each.stopped for each in trials if each.stopped), "")
        for rung in sorted(rung for rung in means[choice] if rung > judged):
            if stopped:
                break
            judged = rung
            others = [mean[rung] for mean in means.values() if rung in mean]
            if not _is_kept(means[choice][rung], others, rule, goal):
                stopped = f"not among the best at step {rung}"
        # Also those whose record was not written before an earlier process ended.
        after[choice] = [
            replace(each, judged=judged, stopped=stopped) if each.is_active else each
            for each in trials
        ]
    for trials in after.values():
        yield from (each for each in trials if each != before[each.index])


def _reached(trial: Trial, rule: EarlyStopping) -> Trial:
    """Return a trial with the value at the last rung that it has reached."""
    if not trial.is_active or trial.step is None or trial.value is None:
        return trial
    rung = rule.first_step
    if trial.step < rung:
        return trial
    while rung * rule.reduction <= trial.step:
        rung *= rule.reduction
    if rung in trial.rungs:
        return trial
    return replace(trial, rungs={**trial.rungs, rung: trial.value})


def _means(trials: Sequence[Trial], seeds: int) -> Iterator[tuple[int, float]]:
    """Yield the rungs that all trials of a choice have reached, except failed ones, and the mean of
    their values there.
    """
    if len(trials) < seeds:
        return
    others = [each for each in trials if each.phase is not Phase.FAILED]
    for rung in {rung for each in others for rung in each.rungs}:
        # A program that ended before a rung has reached no more.
        values = [each.rungs[rung] for each in others if rung in each.rungs]
        waits_for = [each for each in others if rung not in each.rungs and each.is_active]
        if not waits_for:
            yield rung, fmean(values)


def _is_kept(value: float, values: Sequence[float], rule: EarlyStopping, goal: Goal) -> bool:
    """Return whether a value is among the best of all values at its rung; the first one is."""
    better = sum(each > value if goal is Goal.MAXIMIZE else each < value for each in values)
    return better < max(1, len(values) // rule.reduction)
