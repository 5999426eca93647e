"""Loops of other libraries tell of themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO, Any

import gymnasium
import pytest

from di_orchestrator import hooks
from di_orchestrator.training_run.checkpoint import Checkpoints
from tests.unit.sdk.conftest import Clock
from tests.unit.sdk.trainings import Told, make


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-gymnasium-env-run",
    "sdk.md#reference/gymnasium-env-any-run-training-any",
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


class Model:
    """As an algorithm of Stable-Baselines3."""

    def __init__(self) -> None:
        self.num_timesteps = 0
        self.parameters = "new"
        self.ep_info_buffer: list[dict[str, float]] = []

    def save(self, file: IO[bytes]) -> None:
        file.write(self.parameters.encode())

    def set_parameters(self, path: str) -> None:
        self.parameters = Path(path).read_text()


class BaseCallback:
    """As that of Stable-Baselines3: `num_timesteps` is set before each call."""

    num_timesteps = 0

    def __init__(self) -> None:
        self.model = Model()


def learn(callback: Any, clock: Clock, rollouts: int) -> None:
    """As `OnPolicyAlgorithm.learn`: rollouts of ten steps and a second, and three of training."""
    callback._on_training_start()
    for _ in range(rollouts):
        callback._on_rollout_start()
        clock.pass_(1)
        for _ in range(10):
            callback.num_timesteps += 1
            if not callback._on_step():
                callback._on_training_end()
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
    "sdk.md#reference/stable-baselines3-run-training-any",
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


@pytest.mark.usefixtures("sb3")
def test_a_stable_baselines_model_is_saved_and_resumed(clock: Clock, tmp_path: Path) -> None:
    told = Told()
    checkpoints = Checkpoints(tmp_path, every_seconds=8, clock=clock)
    with make(clock, told, checkpoint=checkpoints) as run:
        callback = hooks.stable_baselines3(run)
        callback.model.parameters = "trained"
        callback.model.ep_info_buffer = [{"r": 1.0}, {"r": 2.0}]
        learn(callback, clock, 3)
    # After two rollouts with what they taught, each of four seconds.
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-20"]
    assert (told.reports[-1]["episodeReturn"], told.reports[-1]["checkpointStep"]) == (1.5, 20)
    with make(clock, checkpoint=Checkpoints(tmp_path, 20, clock=clock)) as run:
        callback = hooks.stable_baselines3(run)
        callback._on_training_start()
    assert (callback.model.parameters, callback.model.num_timesteps) == ("trained", 20)


@pytest.mark.usefixtures("sb3")
def test_a_model_that_has_learned_nothing_is_not_saved(clock: Clock, tmp_path: Path) -> None:
    with make(clock, checkpoint=Checkpoints(tmp_path, every_seconds=2, clock=clock)) as run:
        callback = hooks.stable_baselines3(run)
        clock.pass_(5)
        callback._on_training_start()
        callback._on_rollout_start()
        assert [*tmp_path.iterdir()] == []
        callback.num_timesteps = 10
        callback._on_rollout_start()
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-10"]


@dataclass
class Control:
    """As that of Transformers."""

    should_save: bool = False
    should_training_stop: bool = False


@pytest.mark.proves(
    "sdk.md#loops-of-other-libraries/hooks-transformers-run",
    "sdk.md#reference/transformers-run-training-any",
)
def test_a_trainer_saves_reports_and_stops(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, tmp_path: Path
) -> None:
    module = ModuleType("transformers")
    module.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    arguments = SimpleNamespace(train_batch_size=4, gradient_accumulation_steps=2)
    state, told, controls = SimpleNamespace(global_step=0, max_steps=50), Told(), []
    checkpoints = Checkpoints(tmp_path, every_seconds=5, clock=clock)
    with make(clock, told, checkpoint=checkpoints) as run:
        callback = hooks.transformers(run)
        assert callback.resume_from is None
        callback.on_train_begin(arguments, state, None)
        for step in range(1, 8):
            clock.pass_(1)
            callback.on_step_begin(arguments, state, None)
            clock.pass_(1)
            state.global_step = step
            control = Control()
            if step == 7:
                run._leaving.is_asked = True
            callback.on_step_end(arguments, state, control)
            if control.should_save:
                (tmp_path / f"checkpoint-{step}").mkdir()
                callback.on_save(arguments, state, control)
            controls.append((control.should_save, control.should_training_stop))
        callback.on_log(arguments, state, None, logs={"loss": 0.5, "step": 3})
        assert run.waiting_share == 0.5
    assert controls == [(step in (3, 6), step == 7) for step in range(1, 8)]
    last = told.reports[-1]
    assert (last["step"], last["totalSteps"], last["loss"], last["checkpointStep"]) == (
        7,
        50,
        0.5,
        6,
    )
    assert last["observations"][0]["samples"] == 8
    # The one of step 6 was not written to its end.
    (tmp_path / "checkpoint-3" / "trainer_state.json").write_text("{}")
    with make(clock, checkpoint=Checkpoints(tmp_path, 3, clock=clock)) as run:
        assert hooks.transformers(run).resume_from == str(tmp_path / "checkpoint-3")


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
    "sdk.md#reference/torch-optimizer-optimizer-any-run",
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
