"""What a job reports about itself in `status.profilings`, checked.

The object is free-form: keys that are not known here are the job's own affair. Those that are
known must make sense; a report that does not is put aside as a whole, and the job counts as one
that has not reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, ValidationError, fields, post_load, validate
from typing_extensions import override

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


class InvalidProfilings(Exception):
    """The report makes no sense; the message names each key and what is allowed."""


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
    perf_params: PerfParams | None = None
    grad_params: GradParams | None = None
    observations: tuple[Observation, ...] = ()

    def model(self) -> GoodputModel | None:
        """What the report tells about the job's speed; None: not enough.

        Parameters the job has fitted itself come first, else its observations are fitted here,
        which takes some milliseconds. The rate of its training steps counts as one observation.
        """
        perf = self.perf_params
        seen = self.observations[-OBSERVATIONS:] or self._rate()
        if perf is None and seen:
            perf = fit(seen)
        initial = self.init_batch_size or self.batch_size
        if perf is None or initial is None:
            return None
        maximum = max(self.max_batch_size or initial, initial)
        least = self.local_batch_min or 1
        return GoodputModel(
            perf=perf,
            # Without the noise of its gradient a larger batch is worth nothing more to a job.
            grad=self.grad_params or GradParams(sqr=1.0, var=0.0),
            limits=BatchLimits(
                initial=initial,
                maximum=maximum,
                local_min=least,
                local_max=max(self.local_batch_max or maximum, least),
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
    try:
        found: Profilings = _SCHEMA.load(dict(raw))
    except ValidationError as error:
        raise InvalidProfilings("; ".join(_messages("", error.messages_dict))) from error
    if previous is not None and (found.env_steps or 0) < (previous.env_steps or 0):
        raise InvalidProfilings(
            f"envSteps: {found.env_steps:g}: must not be below the {previous.env_steps:g} of before"
        )
    return None if found == Profilings() else found


class _Number(fields.Float):
    """A finite number; what JSON calls true or "1" is none."""

    def __init__(self, *, least: float = 0.0, most: float = math.inf, **options: Any) -> None:
        super().__init__(allow_none=True, validate=validate.Range(min=least, max=most), **options)

    @override
    def _validated(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValidationError("must be a number")
        if not math.isfinite(value):
            raise ValidationError("must be finite")
        return float(value)


class _Count(_Number):
    """A whole number from 1."""

    def __init__(self, **options: Any) -> None:
        super().__init__(least=1.0, most=1e12, **options)

    @override
    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        number = self._validated(value)
        if not number.is_integer():
            raise ValidationError("must be a whole number")
        return int(number)


class _PerfSchema(Schema):
    class Meta:
        unknown = EXCLUDE

    # A term of 0 would make logarithms and ratios of it infinite; no link takes no time at all.
    alpha_c = _Number(least=1e-12, most=1e6, data_key="alphaC", required=True)
    beta_c = _Number(least=1e-12, most=1e6, data_key="betaC", required=True)
    alpha_n = _Number(least=1e-12, most=1e6, data_key="alphaN", required=True)
    beta_n = _Number(least=1e-12, most=1e6, data_key="betaN", required=True)
    alpha_r = _Number(least=1e-12, most=1e6, data_key="alphaR", required=True)
    beta_r = _Number(least=1e-12, most=1e6, data_key="betaR", required=True)
    gamma = _Number(least=1.0, most=10.0, required=True)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> PerfParams:
        return PerfParams(**data)


class _GradSchema(Schema):
    class Meta:
        unknown = EXCLUDE

    sqr = _Number(required=True, most=1e300)
    var = _Number(required=True, most=1e300)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> GradParams:
        return GradParams(**data)


class _ObservationSchema(Schema):
    class Meta:
        unknown = EXCLUDE

    nodes = _Count(required=True)
    replicas = _Count(required=True)
    samples = _Count(required=True)
    computing = _Number(least=1e-9, most=1e6, required=True)
    iteration = _Number(least=1e-9, most=1e6, required=True)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Observation:
        return Observation(**data)


class _ProfilingsSchema(Schema):
    class Meta:
        unknown = EXCLUDE

    reported_at = fields.AwareDateTime(
        data_key="reportedAt", format="iso", default_timezone=UTC, allow_none=True
    )
    env_steps = _Number(data_key="envSteps")
    max_env_steps = _Number(data_key="maxEnvSteps")
    env_steps_per_sec = _Number(data_key="envStepsPerSec")
    train_steps_per_sec = _Number(data_key="trainStepsPerSec")
    collectors = _Count(data_key="collectors")
    learners = _Count(data_key="learners")
    learner_wait_frac = _Number(data_key="learnerWaitFrac", most=1.0)
    collector_wait_frac = _Number(data_key="collectorWaitFrac", most=1.0)
    batch_size = _Count(data_key="batchSize")
    init_batch_size = _Count(data_key="initBatchSize")
    max_batch_size = _Count(data_key="maxBatchSize")
    local_batch_min = _Count(data_key="localBatchMin")
    local_batch_max = _Count(data_key="localBatchMax")
    samples_per_env_step = _Number(data_key="samplesPerEnvStep", least=1e-9)
    perf_params = fields.Nested(_PerfSchema, data_key="perfParams", allow_none=True)
    grad_params = fields.Nested(_GradSchema, data_key="gradParams", allow_none=True)
    observations = fields.List(fields.Nested(_ObservationSchema), allow_none=True)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Profilings:
        if (data.get("env_steps") or 0) > (data.get("max_env_steps") or math.inf):
            raise ValidationError({"envSteps": ["must not be above maxEnvSteps"]})
        return Profilings(**data | {"observations": tuple(data.get("observations") or ())})


_SCHEMA: Final = _ProfilingsSchema()


def _messages(path: str, found: Mapping[Any, Any]) -> list[str]:
    """Flatten the schema's nested messages into `path: what is wrong`."""
    flat: list[str] = []
    for key, below in found.items():
        here = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}" if path else str(key)
        if isinstance(below, Mapping):
            flat += _messages(here, below)
        else:
            flat += [f"{here}: {message}" for message in below]
    return flat
