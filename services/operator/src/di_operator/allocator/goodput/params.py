"""Parameters of the model of a job's speed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfParams:
    """The time of an iteration in seconds, as a function of replicas, nodes and samples.

    Computing takes alpha_c + beta_c m. Synchronising takes alpha + beta max(K - 2, 0), with
    alpha_n, beta_n over several nodes and alpha_r, beta_r within one. gamma in [1, 10] is the
    overlap of the two: 1 not at all, 10 (nearly) entirely.
    """

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GradParams:
    """Squared norm and variance of the gradient at the initial batch size."""

    sqr: float
    var: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Batch sizes in samples: the least and most of the whole job, and the most of one replica."""

    initial: int
    maximum: int
    local_min: int
    local_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputModel:
    """The model of a job's speed. Hashable, so that results can be cached."""

    perf: PerfParams
    grad: GradParams
    limits: BatchLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch of a job on its replicas.

    `goodput` is in samples of the initial batch per second, `atomic` the samples a replica takes
    at a time, `accumulation` the further times before it synchronises.
    """

    goodput: float
    atomic: int
    accumulation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collecting:
    """The rate of a job's collectors.

    `rate` is in environment steps per second of one alone, `contention` the share it loses to
    every further one. The learners use each step for `samples_per_step` samples.
    """

    rate: float
    contention: float = 0.0
    samples_per_step: float = 1.0
