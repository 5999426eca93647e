"""What a job reports about itself in `status.profilings`, checked.

The object is free-form: keys that are not known here are the job's own affair. Those that are
known must make sense; a report that does not is put aside as a whole, and the job counts as one
that has not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from di_operator.allocator.goodput.fit import Observation, fit
from di_operator.allocator.goodput.params import (
    BatchLimits,
    Collecting,
    GoodputModel,
    GradParams,
    PerfParams,
)

# A report older than this says how fast the job is, but no longer how far it has come. Jobs
# report at least every minute or so.
STALE_SECONDS: Final = 600.0
# Bounds the time of a fit; the last ones count.
OBSERVATIONS: Final = 64
# Bounds what is kept of a report.
_KINDS: Final = 16
# The longest value of a label.
_KIND: Final = 63


class InvalidProfilings(Exception):
    """The report makes no sense; the message names each key and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindProfile:
    """What a report says of one kind of node alone; None: nothing else than of all."""

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
    perf_params: PerfParams | None = None
    grad_params: GradParams | None = None
    observations: tuple[Observation, ...] = ()
    kind: str = ""
    """Of the nodes that all of it was measured on, but for what says otherwise."""
    by_kind: Mapping[str, KindProfile] = field(default_factory=dict)

    def models(
        self, fitted: Callable[[Sequence[Observation]], PerfParams] | None = None
    ) -> dict[str, GoodputModel]:
        """What the report tells about the job's speed, by kind of node; empty: it is not said.

        Parameters the job has fitted itself come first, else its observations are fitted here
        (by `fitted`, if it is given), which takes some milliseconds. The rate of its training
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
            # Without the noise of its gradient a larger batch is worth nothing more to a job.
            grad=self.grad_params or GradParams(sqr=1.0, var=0.0),
            limits=BatchLimits(
                initial=initial, maximum=maximum, local_min=least, local_max=max(largest, least)
            ),
        )

    def collecting(self) -> Collecting | None:
        """What one collector delivers when nobody keeps it waiting; None: it is not said."""
        busy = 1 - (self.collector_wait_frac or 0.0)
        if not self.env_steps_per_sec or not self.collectors or busy <= 0:
            return None
        return Collecting(
            rate=self.env_steps_per_sec / (self.collectors * busy),
            samples_per_step=self.samples_per_env_step or 1.0,
        )

    def _rate(self) -> tuple[Observation, ...]:
        """The learners' own speed, their waits for data taken out."""
        busy = 1 - (self.learner_wait_frac or 0.0)
        if not self.train_steps_per_sec or not self.learners or not self.batch_size or busy <= 0:
            return ()
        iteration = busy / self.train_steps_per_sec
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
        """The most learners the report is based on."""
        return max(
            (observation.replicas for observation in self.observations),
            default=self.learners or 0,
        )

    def remaining(self, now: datetime) -> float | None:
        """Samples still to be worked through; None if it is not said, or was said too long ago."""
        if self.env_steps is None or self.max_env_steps is None or self.is_stale(now):
            return None
        return (self.max_env_steps - self.env_steps) * (self.samples_per_env_step or 1.0)

    def is_stale(self, now: datetime) -> bool:
        """Whether the report is too old to say how far the job is.

        One that carries no time, or a time that has not come yet, cannot be told from an old one.
        """
        if self.reported_at is None:
            return True
        return not -STALE_SECONDS <= (now - self.reported_at).total_seconds() <= STALE_SECONDS


def load_profilings(
    raw: Mapping[str, Any], *, previous: Profilings | None = None
) -> Profilings | None:
    """Read and check `status.profilings`; None if it holds nothing that is known here.

    With the `previous` report of the same run, steps must not have gone backwards.

    Raises:
        InvalidProfilings: with every key that is wrong.
    """
    wrong: list[str] = []
    fields = _read_numbers(_NUMBERS, raw, "", wrong)
    fields["reported_at"] = _read_time(raw.get("reportedAt"), "reportedAt", wrong)
    perf = _read_object(_PERF, raw.get("perfParams"), "perfParams", wrong)
    grad = _read_object(_GRAD, raw.get("gradParams"), "gradParams", wrong)
    seen = _read_observations(raw.get("observations"), "observations", wrong)
    kind = _read_kind(raw.get("kind"), "kind", wrong)
    by_kind = _read_by_kind(raw.get("byKind"), "byKind", wrong)
    if not wrong and (fields.get("env_steps") or 0) > (fields.get("max_env_steps") or math.inf):
        wrong.append("envSteps: must not be above maxEnvSteps")
    if wrong:
        raise InvalidProfilings("; ".join(wrong))
    found = Profilings(
        **fields,
        perf_params=PerfParams(**perf) if perf is not None else None,
        grad_params=GradParams(**grad) if grad is not None else None,
        observations=seen,
        kind=kind,
        by_kind=by_kind,
    )
    if previous is not None and (found.env_steps or 0) < (previous.env_steps or 0):
        raise InvalidProfilings(
            f"envSteps: {found.env_steps:g}: must not be below the {previous.env_steps:g} of before"
        )
    return None if found == _NOTHING else found


@dataclass(frozen=True, slots=True)
class _Number:
    """A finite number within bounds; what JSON calls true or "1" is none."""

    key: str
    field: str
    least: float = 0.0
    most: float = math.inf
    is_whole: bool = False

    def fault_of(self, value: object) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        # Of what is no number this is not true; an integer may be too large for a float.
        if not -_LARGEST <= value <= _LARGEST:
            return "must be finite"
        if self.is_whole and value != int(value):
            return "must be a whole number"
        if not self.least <= value <= self.most:
            upper = "" if self.most == math.inf else f" and at most {self.most:g}"
            return f"must be at least {self.least:g}{upper}"
        return None


def _count(key: str, field: str) -> _Number:
    return _Number(key, field, 1.0, 1e12, is_whole=True)


_LARGEST: Final = 1.7e308
_NOTHING: Final = Profilings()
_NUMBERS: Final = (
    _Number("envSteps", "env_steps"),
    _Number("maxEnvSteps", "max_env_steps"),
    _Number("envStepsPerSec", "env_steps_per_sec"),
    _Number("trainStepsPerSec", "train_steps_per_sec"),
    _count("collectors", "collectors"),
    _count("learners", "learners"),
    _Number("learnerWaitFrac", "learner_wait_frac", most=1.0),
    _Number("collectorWaitFrac", "collector_wait_frac", most=1.0),
    _count("batchSize", "batch_size"),
    _count("initBatchSize", "init_batch_size"),
    _count("maxBatchSize", "max_batch_size"),
    _count("localBatchMin", "local_batch_min"),
    _count("localBatchMax", "local_batch_max"),
    _Number("samplesPerEnvStep", "samples_per_env_step", 1e-9),
    _Number("restoreSeconds", "restore_seconds"),
)
# A term of 0 would make logarithms and ratios of it infinite; no link takes no time at all.
_PERF: Final = (
    _Number("alphaC", "alpha_c", 1e-12, 1e6),
    _Number("betaC", "beta_c", 1e-12, 1e6),
    _Number("alphaN", "alpha_n", 1e-12, 1e6),
    _Number("betaN", "beta_n", 1e-12, 1e6),
    _Number("alphaR", "alpha_r", 1e-12, 1e6),
    _Number("betaR", "beta_r", 1e-12, 1e6),
    _Number("gamma", "gamma", 1.0, 10.0),
)
_GRAD: Final = (_Number("sqr", "sqr", most=1e300), _Number("var", "var", most=1e300))
_BY_KIND: Final = (
    _count("localBatchMin", "local_batch_min"),
    _count("localBatchMax", "local_batch_max"),
)
_OBSERVATION: Final = (
    _count("nodes", "nodes"),
    _count("replicas", "replicas"),
    _count("samples", "samples"),
    _Number("computing", "computing", 1e-9, 1e6),
    _Number("iteration", "iteration", 1e-9, 1e6),
)


def _read_numbers(
    numbers: Sequence[_Number], raw: Mapping[str, Any], path: str, wrong: list[str]
) -> dict[str, Any]:
    """Those that are there, by field; what is wrong goes to `wrong`."""
    found: dict[str, Any] = {}
    for number in numbers:
        value = raw.get(number.key)
        if value is None:
            continue
        if (fault := number.fault_of(value)) is not None:
            wrong.append(f"{path}{number.key}: {fault}")
        else:
            found[number.field] = int(value) if number.is_whole else float(value)
    return found


def _read_object(
    numbers: Sequence[_Number], raw: object, path: str, wrong: list[str]
) -> dict[str, Any] | None:
    """An object of numbers that are all there; None if there is none, or if it is wrong."""
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        wrong.append(f"{path}: must be an object")
        return None
    found = _read_numbers(numbers, raw, f"{path}.", wrong)
    if len(found) == len(numbers):
        return found
    wrong += [f"{path}.{each.key}: is missing" for each in numbers if raw.get(each.key) is None]
    return None


def _read_observations(raw: object, path: str, wrong: list[str]) -> tuple[Observation, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        wrong.append(f"{path}: must be a list")
        return ()
    found = []
    for index, one in enumerate(raw):
        here = f"{path}[{index}]"
        if one is None:
            wrong.append(f"{here}: must be an object")
        elif (fields := _read_object(_OBSERVATION, one, here, wrong)) is not None:
            kind = _read_kind(one.get("kind"), f"{here}.kind", wrong)
            found.append(Observation(**fields, kind=kind))
    return tuple(found)


def _read_kind(raw: object, path: str, wrong: list[str]) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str) or len(raw) > _KIND:
        wrong.append(f"{path}: must be a string of at most {_KIND} characters")
        return ""
    return raw


def _read_by_kind(raw: object, path: str, wrong: list[str]) -> dict[str, KindProfile]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping) or len(raw) > _KINDS:
        wrong.append(f"{path}: must be an object of at most {_KINDS} kinds of nodes")
        return {}
    found = {}
    for kind, one in raw.items():
        here = f"{path}.{_read_kind(kind, path, wrong)}"
        if not isinstance(one, Mapping):
            wrong.append(f"{here}: must be an object")
            continue
        fields = _read_numbers(_BY_KIND, one, f"{here}.", wrong)
        perf = _read_object(_PERF, one.get("perfParams"), f"{here}.perfParams", wrong)
        params = PerfParams(**perf) if perf is not None else None
        found[kind] = KindProfile(**fields, perf_params=params)
    return found


def _read_time(raw: object, path: str, wrong: list[str]) -> datetime | None:
    if raw is None:
        return None
    try:
        # A date alone is none, nor are the shortest forms of ISO 8601.
        found = datetime.fromisoformat(raw) if isinstance(raw, str) and "T" in raw else None
    except ValueError:
        found = None
    if found is None:
        wrong.append(f"{path}: must be a time, such as 2026-01-02T03:04:05Z")
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
