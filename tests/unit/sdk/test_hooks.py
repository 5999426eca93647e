"""Loops of other libraries tell of themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import gymnasium
import pytest

from di_orchestrator import hooks
from tests.unit.sdk.conftest import Clock
from tests.unit.sdk.test_training import Told, make


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-gymnasium-env-run", "sdk.md#reference/gymnasium-env-run"
)
def test_an_environment_reports_steps_and_episodes(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        env = hooks.gymnasium(gymnasium.make("CartPole-v1"), run)
        lengths = []
        for seed in range(3):
            env.reset(seed=seed)
            length, ended = 0, False
            while not ended:
                _, _, terminated, truncated, _ = env.step(0)
                length, ended = length + 1, terminated or truncated
            lengths.append(length)
        episodes = told.reports[:3]
        assert [report["episodeReturn"] for report in episodes] == lengths
        assert [report["envSteps"] for report in episodes] == [
            sum(lengths[: count + 1]) for count in range(3)
        ]
        assert env.steps == sum(lengths)


class BaseCallback:
    """As that of Stable-Baselines3: `num_timesteps` is set before each call."""

    num_timesteps = 0


def learn(callback: Any, clock: Clock, rollouts: int) -> None:
    """As `OnPolicyAlgorithm.learn`: rollouts of ten steps and a second, and three of training."""
    for _ in range(rollouts):
        callback._on_rollout_start()
        clock.pass_(1)
        for _ in range(10):
            callback.num_timesteps += 1
            if not callback._on_step():
                return
        callback._on_rollout_end()
        clock.pass_(3)
    callback._on_training_end()


@pytest.fixture
def sb3(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("stable_baselines3.common.callbacks")
    module.BaseCallback = BaseCallback  # type: ignore[attr-defined]
    for name in ("stable_baselines3", "stable_baselines3.common"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-stable-baselines3-run",
    "sdk.md#reference/stable-baselines3-run",
)
@pytest.mark.usefixtures("sb3")
def test_a_stable_baselines_model_is_timed_and_reported(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        learn(hooks.stable_baselines3(run), clock, 5)
        assert run.waiting_share == 0.25
    last = told.reports[-1]
    assert (last["envSteps"], last["batchSize"]) == (50, 10)
    assert last["observations"][0]["iteration"] == 3


@pytest.mark.usefixtures("sb3")
def test_a_model_stops_learning_when_the_pod_leaves(clock: Clock) -> None:
    with make(clock) as run:
        callback = hooks.stable_baselines3(run)
        run._leaving.is_asked = True
        learn(callback, clock, 5)
        assert callback.num_timesteps == 1


class Optimizer:
    """As torch's: a hook is called after each step."""

    def __init__(self) -> None:
        self.hooks: list[Callable[..., Any]] = []

    def register_step_post_hook(self, hook: Callable[..., Any]) -> str:
        self.hooks.append(hook)
        return "handle"

    def step(self) -> None:
        for hook in self.hooks:
            assert hook(self, (), {}) is None


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-torch-optimizer-optimizer-run",
    "sdk.md#reference/torch-optimizer-optimizer-run-samples",
)
def test_each_step_of_an_optimizer_is_an_iteration(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        optimizer = Optimizer()
        assert hooks.torch_optimizer(optimizer, run, samples=64) == "handle"
        for _ in range(5):
            with run.waiting():
                clock.pass_(1)
            clock.pass_(1)
            optimizer.step()
    last = told.reports[-1]
    assert (last["trainStepsPerSec"], last["learnerWaitFrac"]) == (0.5, 0.5)
    assert last["observations"][0] == {
        **{"nodes": 1, "replicas": 1, "samples": 64},
        **{"computing": 1.0, "iteration": 1.0},
    }
