"""Decides about a sweep from its trials: which to create, which to stop, and whether it is over."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from di_api.phase import Phase
from di_api.sweeps.early_stopping import after_comparison
from di_api.sweeps.population import after_selection, pending_copies
from di_api.sweeps.space import Space
from di_api.sweeps.spec import SweepSpec
from di_api.sweeps.trial import Trial

_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of one decision about a sweep.

    Attributes:
        changed: trials with a new record, to be written in one write with the suspension of those
            that are stopped.
        create: indexes of trials to create, in this order. After one that cannot be created the
            others have to wait, so that the last index shows how many there are.
        copies: index of each copy to create in a population, with the trial that it replaces.
        exhausted: the budget that is used up; empty while there is none.
        is_over: whether no trial is active, and none will be created.
        created: number of trials that have been created, see `count_created`.
    """

    changed: Sequence[Trial] = ()
    create: range = range(0)
    copies: Sequence[tuple[int, Trial]] = ()
    exhausted: str = ""
    is_over: bool = False
    created: int = 0


def decide(
    spec: SweepSpec,
    trials: Iterable[Trial],
    *,
    created: int = 0,
    elapsed: float = 0.0,
    ending: int = 0,
) -> Decision:
    """Return what to do about a sweep.

    Args:
        spec: the sweep.
        trials: all of its trials that exist.
        created: number of trials that were created earlier, as far as it is known; some of these
            may have been deleted.
        elapsed: seconds since the sweep was created.
        ending: number of stopped trials whose pods still run.
    """
    space = Space(spec)
    known = {each.index: each for each in trials}
    created = count_created(spec, known, created)
    exhausted = _exhausted(spec, list(known.values()), elapsed)
    rule = spec.population
    if rule is None:
        after = {**known, **_compared(spec, space, known.values())}
    else:
        after = known if exhausted else after_selection(spec, rule, known, created)
    if exhausted:
        after = {
            index: replace(each, stopped=exhausted) if each.is_active else each
            for index, each in after.items()
        }
    active = sum(each.is_active for each in after.values())
    # The pods of those that stop now still run.
    ending += sum(each.is_active and bool(after[index].stopped) for index, each in known.items())
    free = max(0, spec.parallelism - active - ending)
    end = created if exhausted else min(space.size, created + free)
    create = range(created, max(created, end))
    pending = [] if rule is None or exhausted else pending_copies(rule, after)
    return Decision(
        changed=[each for index, each in after.items() if each != known[index]],
        create=create,
        copies=pending[: max(0, free - len(create))],
        exhausted=exhausted,
        is_over=not (active or ending or pending) and (bool(exhausted) or created >= space.size),
        created=created,
    )


def count_created(spec: SweepSpec, trials: Collection[int], created: int) -> int:
    """Return how many trials have been created, by the indexes of those that exist, and by an
    earlier count: deleted ones count, too.
    """
    if spec.population is None:
        return max(created, max(trials, default=-1) + 1)
    first = max((index for index in trials if index < spec.population.size), default=-1) + 1
    return max(created, first, len(trials))


def by_choice(space: Space, trials: Iterable[Trial]) -> dict[int, list[Trial]]:
    """Return the trials of each choice of parameters, in the order of their index."""
    found: dict[int, list[Trial]] = {}
    for each in sorted(trials, key=lambda trial: trial.index):
        found.setdefault(space.choice(each.index), []).append(each)
    return found


def gpu_hours(trials: Iterable[Trial]) -> float:
    """Return the GPU-hours that trials have taken."""
    return sum(each.gpus * each.seconds for each in trials) / _HOUR


def _compared(spec: SweepSpec, space: Space, trials: Iterable[Trial]) -> dict[int, Trial]:
    """Return the trials that early stopping changes."""
    if spec.early_stopping is None:
        return {}
    choices = by_choice(space, trials)
    goal = spec.objective.goal
    found = after_comparison(choices, spec.early_stopping, goal, space.seeds)
    return {each.index: each for each in found}


def _exhausted(spec: SweepSpec, trials: Sequence[Trial], elapsed: float) -> str:
    if spec.stop:
        return "spec.stop is set"
    failed = sum(each.phase is Phase.FAILED for each in trials)
    if failed > spec.max_failed_trials:
        return f"{failed} trials have failed, more than maxFailedTrials"
    if spec.max_seconds is not None and elapsed >= spec.max_seconds:
        return f"maxSeconds: {spec.max_seconds} s are over"
    if spec.max_gpu_hours is not None and gpu_hours(trials) >= spec.max_gpu_hours:
        return f"maxGpuHours: {spec.max_gpu_hours:g} GPU-hours are used"
    return ""
