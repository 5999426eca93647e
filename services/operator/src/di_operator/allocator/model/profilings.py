"""A job's report about itself in `status.profilings`, as the allocator reads it.

A report that is invalid by `di_api.profilings` is ignored as a whole, and the job counts as one
that has not reported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Any, Final

from di_api.profilings import read_profilings
from di_operator.allocator.goodput.fit import Observation, fit
from di_operator.allocator.goodput.params import (
    BatchLimits,
    Collecting,
    GoodputModel,
    GradParams,
    PerfParams,
)

# A report older than this still shows how fast the job is, but not how far it has come. Jobs
# report at least every minute or so.
STALE_SECONDS: Final = 600.0
# Number of the last observations that are used, which bounds the time of a fit.
OBSERVATIONS: Final = 64


# Bounds of rates that follow from reported numbers. No program is beyond them, and neither their
# products nor their ratios overflow.
RATES: Final = (1e-9, 1e12)
SECONDS: Final = (1e-9, 1e6)
"""Bounds of the time of an iteration, as for reported ones."""


class InvalidProfilings(Exception):
    """The report is invalid; the message names each key and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindProfile:
    """The part of a report about one kind of node; None: only what the report has for all kinds."""

    perf_params: PerfParams | None = None
    local_batch_min: int | None = None
    local_batch_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profilings:
    """A job's report. Counts in environment steps, times in seconds, fractions in 0..1."""

    reported_at: datetime | None = None
    env_steps: float | None = None
    max_env_steps: float | None = None
    env_steps_per_sec: float | None = None
    train_steps_per_sec: float | None = None
    collectors: int | None = None
    learners: int | None = None
    learner_wait_frac: float | None = None
    collector_wait_frac: float | None = None
    batch_size: int | None = None
    init_batch_size: int | None = None
    max_batch_size: int | None = None
    local_batch_min: int | None = None
    local_batch_max: int | None = None
    samples_per_env_step: float | None = None
    restore_seconds: float | None = None
    step: float | None = None
    checkpoint_step: int | None = None
    perf_params: PerfParams | None = None
    grad_params: GradParams | None = None
    observations: tuple[Observation, ...] = ()
    kind: str = ""
    """The kind of the nodes it was measured on, except for measurements with their own kind."""
    by_kind: Mapping[str, KindProfile] = field(default_factory=dict)

    def models(
        self, fitted: Callable[[Sequence[Observation]], PerfParams] | None = None
    ) -> dict[str, GoodputModel]:
        """Return the models of the job's speed, by kind of node; empty: none is reported.

        Parameters that the job has fitted itself come first. Otherwise its observations are fitted
        here (by `fitted`, if it is given), which takes some milliseconds. The rate of its training
        steps counts as one observation.
        """
        initial = self.init_batch_size or self.batch_size
        if initial is None:
            return {}
        seen: dict[str, list[Observation]] = {}
        for observation in self.observations[-OBSERVATIONS:] or self._rate():
            seen.setdefault(observation.kind or self.kind, []).append(observation)
        performed = {kind: each.perf_params for kind, each in self.by_kind.items()}
        if not performed.get(self.kind):
            performed[self.kind] = self.perf_params
        return {
            kind: self._model(kind, performed.get(kind) or (fitted or fit)(seen[kind]), initial)
            for kind in sorted(performed.keys() | seen.keys())
            if performed.get(kind) or kind in seen
        }

    def _model(self, kind: str, perf: PerfParams, initial: int) -> GoodputModel:
        maximum = max(self.max_batch_size or initial, initial)
        here = self.by_kind.get(kind, KindProfile())
        least = here.local_batch_min or self.local_batch_min or 1
        largest = here.local_batch_max or self.local_batch_max or maximum
        return GoodputModel(
            perf=perf,
            # Without the noise of its gradient, a larger batch brings nothing more.
            grad=self.grad_params or GradParams(sqr=1.0, var=0.0),
            limits=BatchLimits(
                initial=initial, maximum=maximum, local_min=least, local_max=max(largest, least)
            ),
        )

    def collecting(self) -> Collecting | None:
        """Return the rate of one collector that never waits; None: not reported."""
        busy = 1 - (self.collector_wait_frac or 0.0)
        if not self.env_steps_per_sec or not self.collectors or busy <= 0:
            return None
        return Collecting(
            rate=_within(RATES, self.env_steps_per_sec / (self.collectors * busy)),
            samples_per_step=_within(RATES, self.samples_per_env_step or 1.0),
        )

    def _rate(self) -> tuple[Observation, ...]:
        """Return the learners' own speed, without their waits for data."""
        busy = 1 - (self.learner_wait_frac or 0.0)
        if not self.train_steps_per_sec or not self.learners or not self.batch_size or busy <= 0:
            return ()
        iteration = _within(SECONDS, busy / self.train_steps_per_sec)
        return (
            Observation(
                nodes=1,
                replicas=self.learners,
                samples=ceil(self.batch_size / self.learners),
                computing=iteration,
                iteration=iteration,
            ),
        )

    def explored(self) -> int:
        """Return the most learners on which the report is based."""
        return max(
            (observation.replicas for observation in self.observations),
            default=self.learners or 0,
        )

    def remaining(self, now: datetime) -> float | None:
        """Return the samples still to be processed; None if that is not reported or too old."""
        if self.env_steps is None or self.max_env_steps is None or self.is_stale(now):
            return None
        # Collectors can exceed the number of steps a little.
        left = max(0.0, self.max_env_steps - self.env_steps)
        return left * (self.samples_per_env_step or 1.0)

    def unsaved(self) -> float:
        """Return the seconds of work since the last checkpoint; 0 if not reported."""
        if self.step is None or self.checkpoint_step is None or not self.train_steps_per_sec:
            return 0.0
        return _within(SECONDS, (self.step - self.checkpoint_step) / self.train_steps_per_sec)

    def is_stale(self, now: datetime) -> bool:
        """Return whether the report is too old to show how far the job is.

        A report without a time, or with one in the future, counts as old.
        """
        if self.reported_at is None:
            return True
        return not -STALE_SECONDS <= (now - self.reported_at).total_seconds() <= STALE_SECONDS


def load_profilings(raw: Mapping[str, Any]) -> Profilings | None:
    """Read and check `status.profilings`; None if it has no known field.

    Raises:
        InvalidProfilings: with every key that is wrong.
    """
    found, wrong = read_profilings(raw)
    if wrong:
        raise InvalidProfilings("; ".join(wrong))
    fields = {key: value for key, value in found.items() if key in _FIELDS}
    for key, params in (("perf_params", PerfParams), ("grad_params", GradParams)):
        if key in fields:
            fields[key] = params(**fields[key])
    if "observations" in fields:
        fields["observations"] = tuple(Observation(**each) for each in fields["observations"])
    if "by_kind" in fields:
        fields["by_kind"] = {kind: _profile(**each) for kind, each in fields["by_kind"].items()}
    said = Profilings(**fields)
    return None if said == _NOTHING else said


def _within(bounds: tuple[float, float], value: float) -> float:
    least, most = bounds
    return max(least, min(value, most))


def _profile(*, perf_params: Mapping[str, Any] | None = None, **limits: int) -> KindProfile:
    return KindProfile(**limits, perf_params=PerfParams(**perf_params) if perf_params else None)


_NOTHING: Final = Profilings()
_FIELDS: Final = frozenset(each.name for each in dataclasses.fields(Profilings))
