"""Population-based training: the worst trials are replaced by changed copies of the best ones.

The trials of a population are compared at every `interval` steps (truncation selection). One of the
worst `quantile` is stopped, and a new trial starts from the checkpoint of one of the best, with
perturbed parameters. M. Jaderberg et al., "Population Based Training of Neural Networks", 2017,
arXiv:1711.09846, section 3 and appendix A. As in A. Li et al., "A Generalized Framework for
Population Based Training", KDD 2019, arXiv:1902.01894, a copy is a trial of its own.

A population of P trials has P members. Trial `i` is of member `i % P`, and trial `i + P` replaces
it. So the name of a copy follows from the trial that it replaces, and no copy is created twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from di_api.phase import Phase
from di_api.sweeps.sampling import uniform
from di_api.sweeps.space import Value, moved, value_at
from di_api.sweeps.spec import MAX_TRIALS, Goal, Parameter, Population, SweepSpec
from di_api.sweeps.trial import Copy, Trial


def after_selection(
    spec: SweepSpec, rule: Population, trials: Mapping[int, Trial], created: int
) -> dict[int, Trial]:
    """Return all trials with their new records: a value, a comparison, or a stop with its copy.

    Args:
        spec: the sweep.
        rule: its population.
        trials: those that exist, by index.
        created: number of trials that were created so far.
    """
    after = {index: _reached(each, rule.interval) for index, each in trials.items()}
    for rung in sorted({rung for each in after.values() for rung in each.rungs}):
        active = [each for each in after.values() if each.is_active and each.judged < rung]
        entrants = _entrants(rule, after, created, rung)
        if entrants is None:
            break
        if not active:
            continue
        budget = (spec.max_trials or MAX_TRIALS) - created - len(pending_copies(rule, after))
        copies = _copies(spec, rule, entrants, rung, budget)
        for each in active:
            source = copies.get(each.index)
            after[each.index] = _judged(spec, rule, each, rung, source)
    return after


def pending_copies(rule: Population, trials: Mapping[int, Trial]) -> list[tuple[int, Trial]]:
    """Return the index of each copy that has to be created, with the trial that it replaces."""
    return [
        (index + rule.size, each)
        for index, each in sorted(trials.items())
        if each.copy is not None and index + rule.size not in trials
    ]


def missing_checkpoints(spec: SweepSpec, trials: Iterable[Trial]) -> str:
    """Return why no trial can be copied, after the first comparison; empty if one can be."""
    found = list(trials)
    if spec.population is None or not any(each.judged for each in found):
        return ""
    if any(each.saved is not None for each in found):
        return ""
    return "no trial has reported a checkpoint, so that none can be copied; save with run.save"


def _reached(trial: Trial, interval: int) -> Trial:
    """Return a trial with the value at the last rung that it has reached."""
    if not trial.is_active or trial.step is None or trial.value is None:
        return trial
    rung = int(trial.step // interval) * interval
    if rung <= max([trial.born, *trial.rungs], default=0):
        return trial
    return replace(trial, rungs={**trial.rungs, rung: trial.value})


def _entrants(
    rule: Population, trials: Mapping[int, Trial], created: int, rung: int
) -> list[tuple[float, Trial]] | None:
    """Return the members that are compared at a rung, with their values there; None while one that
    runs, or will be created, has not come that far.

    Members that have failed or ended before it are left out.
    """
    if created < rule.size:
        return None
    latest = {index % rule.size: each for index, each in sorted(trials.items()) if each.born < rung}
    found = []
    for last in latest.values():
        reached = [step for step in sorted(last.rungs) if step >= rung]
        if reached:
            found.append((last.rungs[reached[0]], last))
        elif last.is_active or (last.copy is not None and last.judged < rung):
            return None
    return found


def _copies(
    spec: SweepSpec,
    rule: Population,
    entrants: list[tuple[float, Trial]],
    rung: int,
    budget: int,
) -> dict[int, Trial]:
    """Return the source of the copy for each trial that is replaced, the worst first."""
    sign = 1 if spec.objective.goal is Goal.MAXIMIZE else -1
    ranked = sorted(entrants, key=lambda pair: (-sign * pair[0], pair[1].index))
    count = max(1, int(len(ranked) * rule.quantile)) if len(ranked) > 1 else 0
    sources = [
        (value, each)
        for value, each in ranked[:count]
        if each.saved is not None and each.phase is not Phase.FAILED
    ]
    found: dict[int, Trial] = {}
    for value, each in reversed(ranked[len(ranked) - count :]):
        better = [source for best, source in sources if sign * best > sign * value]
        is_possible = each.is_active and each.judged < rung and better
        if is_possible and len(found) < budget and each.index + rule.size < MAX_TRIALS:
            place = uniform("source", spec.random_seed, each.index + rule.size, str(rung))
            found[each.index] = better[int(place * len(better))]
    return found


def _judged(
    spec: SweepSpec, rule: Population, trial: Trial, rung: int, source: Trial | None
) -> Trial:
    """Return a trial after its comparison at a rung; without a source it goes on."""
    # Later comparisons do not need older values, and annotations are limited.
    rungs = {step: value for step, value in trial.rungs.items() if step >= rung}
    if source is None:
        return replace(trial, rungs=rungs, judged=rung)
    parameters = explored(spec, rule, source.parameters, trial.index + rule.size)
    return replace(
        trial,
        rungs=rungs,
        judged=rung,
        stopped=f"among the worst at step {rung}, replaced by a copy of trial {source.index}",
        copy=Copy(source=source.index, parameters=parameters),
    )


def explored(
    spec: SweepSpec, rule: Population, parameters: Mapping[str, Value], index: int
) -> dict[str, Value]:
    """Return the parameters of the copy with an index: those of its source, perturbed.

    Each is drawn again from its space with the probability `resample`, otherwise multiplied by
    1 - `perturbation` or 1 + `perturbation`.
    """
    found: dict[str, Value] = {}
    for each in spec.parameters:
        before = parameters.get(each.name)
        is_drawn = uniform("resample", spec.random_seed, index, each.name) < rule.resample
        place = uniform("explore", spec.random_seed, index, each.name)
        if is_drawn or before is None:
            found[each.name] = value_at(each, place)
        else:
            found[each.name] = _perturbed(each, before, rule.perturbation, grows=place >= 0.5)
    return found


def _perturbed(parameter: Parameter, before: Value, share: float, *, grows: bool) -> Value:
    """Return a neighbouring value: listed ones have no distance, so the next one in the list."""
    change = share if grows else -share
    if parameter.values:
        found = [at for at, value in enumerate(parameter.values) if value == before]
        index = (found[0] if found else 0) + (1 if grows else -1)
        return parameter.values[min(max(index, 0), len(parameter.values) - 1)]
    if isinstance(before, str):
        return before
    return moved(parameter, before, before * (1 + change), grows=grows)
