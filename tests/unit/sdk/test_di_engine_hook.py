"""A `ditask` of DI-engine reports, and its processes end independently.

With a fake of its `Task`: the order in which middlewares run, what an end sends to others,
and that what is sent goes out from a thread are those of DI-engine 0.5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import GeneratorType, SimpleNamespace
from typing import Any

import pytest

from di_orchestrator import hooks
from tests.unit.sdk.conftest import Clock
from tests.unit.sdk.trainings import Told, make


@dataclass
class Context:
    train_iter: int = 0
    env_step: int = 0
    last_eval_value: float = float("-inf")


@dataclass
class Router:
    """What the other processes hear."""

    is_active: bool = True
    heard: list[str] = field(default_factory=list)

    def emit(self, event: str) -> None:
        if self.is_active:
            self.heard.append(event)


class Task:
    """Runs middlewares as DI-engine does, in one process of several."""

    role = SimpleNamespace(LEARNER="learner", COLLECTOR="collector")

    def __init__(self, role: str) -> None:
        self.router, self.finish = Router(), False
        self.ctx = Context()
        self._role = role
        self._middlewares: list[Callable[[Any], Any]] = []
        self._wrappers: list[Callable[[Any], Any]] = []
        self._sent: list[str] = []

    def has_role(self, role: str) -> bool:
        return role == self._role

    def use(self, middleware: Callable[[Any], Any]) -> None:
        for wrapper in self._wrappers:
            middleware = wrapper(middleware)
        self._middlewares.append(middleware)

    def use_wrapper(self, wrapper: Callable[[Any], Any]) -> None:
        self._middlewares = [wrapper(each) for each in self._middlewares]
        self._wrappers.append(wrapper)

    def emit(self, event: str) -> None:
        """A thread sends it, not later than at the next `sync`."""
        self._sent.append(event)

    def sync(self) -> None:
        while self._sent:
            self.router.emit(self._sent.pop(0))

    def run(self, iterations: int) -> None:
        for _ in range(iterations):
            going = []
            for middleware in self._middlewares:
                found = middleware(self.ctx)
                if isinstance(found, GeneratorType):
                    with suppress(StopIteration):
                        next(found)
                        going.append(found)
            self.sync()
            while going:
                with suppress(StopIteration):
                    next(going.pop())
            self.sync()
            if self.finish:
                return

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *_: object) -> None:
        if self.router.is_active:
            self.emit("finish")
        self.sync()


class ContextExchanger:
    """As that of DI-engine: a learner receives samples, a collector sends them."""

    def __init__(self, task: Task, clock: Clock) -> None:
        self._task, self._clock = task, clock

    def __call__(self, ctx: Context) -> Iterator[None]:
        self._clock.pass_(1)
        ctx.env_step += 100
        yield
        self._task.emit("samples")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-di-engine-task-run-samples",
    "sdk.md#reference/di-engine-task-any-run-training-samples",
)
def test_a_learner_is_timed_and_reports(clock: Clock, told: Told) -> None:
    def train(ctx: Context) -> None:
        clock.pass_(3)
        ctx.train_iter += 5

    def evaluate(ctx: Context) -> None:
        if ctx.train_iter == 15:
            ctx.last_eval_value = 190.0

    with make(clock, told) as run, Task("learner") as task:
        hooks.di_engine(task, run, samples=64)
        task.use(ContextExchanger(task, clock))
        task.use(train)
        task.use(evaluate)
        task.run(4)
        assert run.waiting_share == 0.25
    first, *_, last = told.reports
    assert (first["step"], first["envSteps"], first["evalReturn"]) == (5, 100, None)
    assert (last["step"], last["envSteps"], last["evalReturn"]) == (20, 400, 190.0)
    # Five updates in an iteration, of which each takes 64 samples.
    assert last["observations"][0]["samples"] == last["batchSize"] == 5 * 64
    assert last["observations"][0]["iteration"] == 3
    # The end of a training is everybody's.
    assert task.router.heard == ["samples"] * 4 + ["finish"]


def test_an_iteration_without_an_update_is_none(clock: Clock, told: Told) -> None:
    with make(clock, told) as run, Task("learner") as task:
        hooks.di_engine(task, run, samples=64)
        task.use(ContextExchanger(task, clock))
        task.run(3)
    assert told.reports[-1]["envSteps"] == 300
    assert "trainStepsPerSec" not in told.reports[-1]


def test_a_leaving_collector_sends_its_samples_and_ends_alone(clock: Clock, told: Told) -> None:
    iterations = 0

    def count(_: Context) -> None:
        nonlocal iterations
        iterations += 1
        run._leaving.is_asked = iterations == 2

    with make(clock, told) as run:
        with Task("collector") as task:
            hooks.di_engine(task, run, samples=64)
            task.use(count)
            task.use(ContextExchanger(task, clock))
            task.run(5)
        assert iterations == 2
        assert task.router.heard == ["samples"] * 2
        assert told.reports == []


@pytest.mark.parametrize("late", [False, True], ids=["at once", "in the end"])
def test_a_failing_process_ends_alone(late: bool, clock: Clock) -> None:
    def fail(_: Context) -> Iterator[None]:
        if late:
            yield
        raise RuntimeError("an environment")

    def collect() -> None:
        with make(clock) as run, task:
            hooks.di_engine(task, run, samples=64)
            task.use(fail)
            task.run(5)

    task = Task("collector")
    with pytest.raises(RuntimeError, match="environment"):
        collect()
    assert "finish" not in task.router.heard


def test_without_the_hook_a_failure_finishes_all_processes() -> None:
    """The fake behaves like DI-engine."""

    def fail(_: Context) -> None:
        raise RuntimeError("an environment")

    def collect() -> None:
        with task:
            task.use(fail)
            task.run(5)

    task = Task("collector")
    with pytest.raises(RuntimeError, match="environment"):
        collect()
    assert task.router.heard == ["finish"]
