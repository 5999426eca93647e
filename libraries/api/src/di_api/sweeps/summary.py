"""The results of a sweep so far: counts of its trials, and the best choice of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from di_api.phase import Phase
from di_api.sweeps.decide import by_choice
from di_api.sweeps.space import Space
from di_api.sweeps.spec import Goal, SweepSpec
from di_api.sweeps.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts of trials; each trial is in one of them.

    Attributes:
        pending: without running pods.
        best: index of the best trial; with seeds the first one of the best choice. None before the
            first report.
        value: its value, with seeds the mean of the choice.
    """

    pending: int
    running: int
    succeeded: int
    failed: int
    stopped: int
    best: int | None = None
    value: float | None = None


def summarize(spec: SweepSpec, trials: Iterable[Trial]) -> Summary:
    """Return the summary of the trials of a sweep."""
    found = list(trials)
    active = [each for each in found if each.is_active]
    pending = sum(each.phase is Phase.PENDING for each in active)
    succeeded = sum(each.phase is Phase.SUCCEEDED for each in found)
    failed = sum(each.phase is Phase.FAILED for each in found)
    best, value = _best(spec, found)
    return Summary(
        pending=pending,
        running=len(active) - pending,
        succeeded=succeeded,
        failed=failed,
        stopped=len(found) - len(active) - succeeded - failed,
        best=best,
        value=value,
    )


def _best(spec: SweepSpec, trials: list[Trial]) -> tuple[int | None, float | None]:
    """Return the first trial of the best choice, and the mean of its values.

    A choice counts once all its trials have reported. A failed trial does not count.
    """
    space = Space(spec)
    found = []
    for each in by_choice(space, trials).values():
        usable = [trial for trial in each if trial.phase is not Phase.FAILED]
        values = [trial.value for trial in usable if trial.value is not None]
        if values and len(values) == len(usable) and len(each) == space.seeds:
            found.append((fmean(values), -usable[0].index))
    if not found:
        return None, None
    if spec.objective.goal is Goal.MINIMIZE:
        value, index = min(found, key=lambda pair: (pair[0], -pair[1]))
    else:
        value, index = max(found)
    return -index, value
