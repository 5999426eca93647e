"""Adapter for DI-engine's `ditask` in a job; imports nothing of it.

A `Task` runs middlewares in turn in each iteration; the parts after their `yield` run in reverse
order. Tasks of several processes communicate by a router, and each makes all others finish when
it ends, for whatever reason. So a process that leaves alone, or fails, has to disconnect before it
ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import GeneratorType
from typing import Any

from di_orchestrator.training_run.training import Training

WAITS = frozenset(
    ("ContextExchanger", "StepCollector", "EpisodeCollector", "ModelExchanger", "_collect")
)
"""Middlewares in which a learner waits for samples, by name of class or function."""
_OVER = object()

Middleware = Callable[[Any], Any]


class Told:
    """A task that reports its progress, and leaves when its pod has to.

    Args:
        samples: number of samples of one update.
    """

    def __init__(self, task: Any, run: Training, samples: int) -> None:
        self._task = task
        self._run = run
        self._samples = samples
        self._updates = 0

    def middleware(self, context: Any) -> Iterator[None]:
        """Run first of all middlewares, so that its part after the `yield` is the last of an
        iteration.
        """
        yield
        if self._task.has_role(self._task.role.LEARNER):
            self._tell(context)
        if self._run.stopping:
            # Messages of the others in this iteration are sent before the router disconnects.
            self._task.sync()
            self._fall_silent()
            self._task.finish = True

    def wrapper(self, middleware: Middleware) -> Middleware:
        """Return a middleware that is measured, if it waits for samples, and whose failure stays in
        this process.
        """
        name = getattr(middleware, "__name__", type(middleware).__name__)
        waits = name in WAITS

        def told(context: Any) -> Iterator[None]:
            with self._alone(), self._run.waiting() if waits else nullcontext():
                found = middleware(context)
                goes_on = isinstance(found, GeneratorType) and next(found, _OVER) is not _OVER
            if goes_on:
                yield
                with self._alone():
                    next(found, _OVER)

        told.__name__ = name
        return told

    def _tell(self, context: Any) -> None:
        updates, self._updates = context.train_iter - self._updates, context.train_iter
        if updates > 0:
            self._run.iteration(updates * self._samples)
        evaluated = float(context.last_eval_value)
        self._run.report(
            context.train_iter,
            env_steps=context.env_step,
            # It is -inf before the first evaluation.
            evalReturn=evaluated if math.isfinite(evaluated) else None,
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._fall_silent()
            raise

    def _fall_silent(self) -> None:
        self._task.router.is_active = False
