"""A job of a workload: what it has done, what it knows of itself, and how it goes on."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from di_operator.allocator.goodput.fit import Observation, fit
from di_operator.allocator.goodput.model import best_batch
from di_operator.allocator.goodput.params import (
    Batch,
    BatchLimits,
    GoodputModel,
    GradParams,
    PerfParams,
)
from di_simulator.application import Application

# Seconds a job stands still whenever its replicas change (the artifact's figure).
RESTART_SECONDS = 30.0
_ROUNDING = 1e-8


@lru_cache(maxsize=20_000)
def _fitted(observations: tuple[Observation, ...]) -> PerfParams:
    # The recordings are the same for all jobs of an application, so many fits are, too.
    return fit(observations)


@lru_cache(maxsize=50_000)
def _best_batch(model: GoodputModel, nodes: int, replicas: int) -> Batch:
    return best_batch(model, nodes, replicas)


@dataclass(slots=True, kw_only=True)
class SimulatedJob:
    """Times in seconds since the start of the workload; progress as in the application."""

    name: str
    application: Application
    submitted: float
    replicas: int
    """Asked for by its owner; only policies without a model heed it."""
    batch: int | None
    """Fixed by its owner; None: the job chooses."""
    pool: str = ""
    """Of nodes that its pods select; empty: any node."""
    completed: float | None = None
    now: float = 0.0
    placement: tuple[int, ...] = ()
    knows_kinds: bool = True
    """Whether it tells kinds of nodes apart when it measures itself."""
    restarts: int = 0
    attained: float = 0.0
    epoch: int = 0
    progress: float = 0.0
    started: bool = False
    perf: dict[str, PerfParams] = field(default_factory=dict)
    """By kind of node, as far as the job knows it."""
    grad: GradParams | None = None
    observed: dict[tuple[str, int, int, int], Observation] = field(default_factory=dict)
    _kinds: frozenset[str] = frozenset({""})
    _restarting: float = 0.0
    _atomic: int = 0
    _accumulation: int = 0

    @property
    def models(self) -> dict[str, GoodputModel]:
        """What the job would report, by kind of node; nothing before its first step."""
        if self.grad is None:
            return {}
        return {
            kind: GoodputModel(perf=perf, grad=self.grad, limits=self._limits({kind}))
            for kind, perf in self.perf.items()
        }

    def _limits(self, kinds: Collection[str]) -> BatchLimits:
        """Who cannot tell kinds apart must fit into the smallest."""
        is_told = self.knows_kinds and "" not in kinds
        return self.application.limits_on(kinds) if is_told else self.application.limits

    @property
    def explored(self) -> int:
        """The most replicas it has run on."""
        return max((replicas for _, _, replicas, _ in self.observed), default=0)

    @property
    def remaining(self) -> float:
        """Progress still to be made, in iterations at the initial batch size."""
        return self.application.progress_after(self.application.epochs) - self.progress

    def place(self, placement: tuple[int, ...], kinds: Collection[str] = ("",)) -> None:
        """Change to so many replicas on each node, of these kinds; none at all: stop."""
        self.placement = placement
        if not placement:
            return
        self._kinds = frozenset(kinds)
        self.restarts += self.started
        self.started = True
        self._restarting = RESTART_SECONDS
        self._choose_batch()

    def run(self, seconds: float) -> None:
        """Go on for so long."""
        end = self.now + seconds
        if self.placement and self.completed is None:
            delay = min(self._restarting, seconds)
            self._restarting -= delay
            self._spend(delay)
            while self.completed is None and self.now < end:
                self._run_epoch(end)
        self.now = end

    def _run_epoch(self, end: float) -> None:
        """Go on to the end of the epoch or of the time."""
        application = self.application
        replicas = sum(self.placement)
        parts = self._accumulation + 1
        batch = replicas * self._atomic * parts
        step, sync = application.step(self.placement, self._atomic, self._kinds)
        sqr, var = application.gradient(batch, self.epoch)
        gain = (var + sqr) / (var * application.limits.initial / batch + sqr)
        self._observe(step, sync, sqr, var)
        goodput = gain / (step + (step - sync) * self._accumulation)
        boundary = application.progress_after(self.epoch + 1)
        seconds = end - self.now
        if self.progress + goodput * seconds < boundary:
            self.progress += goodput * seconds
            self._spend(seconds)
        else:
            # Whole seconds, as in the artifact; figures are to be comparable with its own.
            self._spend(float(round((boundary - self.progress) / goodput)))
            self.progress = boundary
            self.epoch += 1
            if self.epoch >= application.epochs:
                self.completed = self.now
        self._choose_batch()

    def _spend(self, seconds: float) -> None:
        self.now += seconds
        self.attained += seconds * sum(self.placement)

    def _observe(self, step: float, sync: float, sqr: float, var: float) -> None:
        self.grad = GradParams(sqr=sqr, var=var)
        kind, nodes, replicas = self._kind, len(self.placement), sum(self.placement)
        key = (kind, nodes, replicas, self._atomic)
        if key not in self.observed:
            self.observed[key] = Observation(
                nodes=nodes,
                replicas=replicas,
                samples=self._atomic,
                computing=step - sync,
                iteration=step,
            )
            seen = (found for (on, *_), found in self.observed.items() if on == kind)
            self.perf[kind] = _fitted(tuple(seen))

    @property
    def _kind(self) -> str:
        """The kind of the nodes it runs on, as far as it knows."""
        return min(self._kinds) if self.knows_kinds and len(self._kinds) == 1 else ""

    def _choose_batch(self) -> None:
        limits = self._limits(self._kinds)
        nodes, replicas = len(self.placement), sum(self.placement)
        model = self.models.get(self._kind)
        if self.batch is None and model is not None:
            best = _best_batch(model, nodes, replicas)
            self._atomic, self._accumulation = best.atomic, best.accumulation
        else:
            batch = self.batch or max(limits.initial, limits.local_min * replicas)
            local = math.ceil(batch / replicas - _ROUNDING)
            self._accumulation = math.ceil(local / limits.local_max - _ROUNDING) - 1
            if replicas == 1 and batch > limits.initial:
                self._accumulation = max(1, self._accumulation)
            self._atomic = math.ceil(local / (self._accumulation + 1) - _ROUNDING)
        parts = replicas * (self._accumulation + 1)
        self._atomic = min(self._atomic, limits.maximum // parts)
