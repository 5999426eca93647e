"""DI-engine's `ditask`, as far as it concerns its place in a job; nothing of it is imported.

A `Task` runs middlewares in turn, iteration after iteration; what one does after its `yield` comes
in reverse order. Tasks of several processes tell each other by a router, and each tells all others
to finish when it ends, for whatever reason. So one that leaves alone, or fails, has to fall silent
before it ends.
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
"""Middlewares in which a learner waits for samples: by class, or by the name of a function."""
_OVER = object()

Middleware = Callable[[Any], Any]


class Told:
    """A task that tells of itself, and leaves when its pod is to.

    Args:
        samples: of one update.
    """

    def __init__(self, task: Any, run: Training, samples: int) -> None:
        self._task = task
        self._run = run
        self._samples = samples
        self._updates = 0

    def middleware(self, context: Any) -> Iterator[None]:
        """The first of all, so that what it does after the others is the last of an iteration."""
        yield
        if self._task.has_role(self._task.role.LEARNER):
            self._tell(context)
        if self._run.stopping:
            # What the others have sent in this iteration is on its way before it falls silent.
            self._task.sync()
            self._fall_silent()
            self._task.finish = True

    def wrapper(self, middleware: Middleware) -> Middleware:
        """A middleware that is timed, if it waits for samples, and whose failure is its own."""
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
            # It is -inf until there was an evaluation.
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
