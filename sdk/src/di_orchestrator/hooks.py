"""A training of another library, told without changing its loop.

Each hook imports that library when it is made, and none when this module is imported.
"""

from __future__ import annotations

from typing import Any

from di_orchestrator.training_run.ditask import Told
from di_orchestrator.training_run.training import Training


def di_engine(task: Any, run: Training, samples: int) -> None:
    """Have a `ditask` tell of itself, and leave alone when its pod is to.

    To be called in `with task.start(...)`, before the first `task.use`. Learners report; collecting
    and receiving samples is waiting. A process that is to leave finishes its iteration and ends,
    and so does one that fails: without this, all the others would finish with it.

    Args:
        task: DI-engine's; roles are taken from it.
        samples: that a learner trains on in one update, its batch size.
    """
    told = Told(task, run, samples)
    task.use(told.middleware)
    task.use_wrapper(told.wrapper)


def gymnasium(env: Any, run: Training) -> Any:
    """The environment, wrapped: its steps are `env_steps`, each episode's return is reported.

    Args:
        env: one `gymnasium.Env`, not a vector of them.
    """
    from gymnasium import Wrapper  # noqa: PLC0415  only who uses it has it

    class Told(Wrapper):
        """Counts, and changes nothing."""

        def __init__(self) -> None:
            super().__init__(env)
            self.steps = 0
            self._return = 0.0

        def reset(self, **more: Any) -> Any:
            self._return = 0.0
            return super().reset(**more)

        def step(self, action: Any) -> Any:
            found = super().step(action)
            _, reward, terminated, truncated, _ = found
            self.steps += 1
            self._return += float(reward)
            if terminated or truncated:
                run.report(env_steps=self.steps, episodeReturn=self._return)
            return found

    return Told()


def stable_baselines3(run: Training) -> Any:
    """A callback for `model.learn(..., callback=...)`.

    Each rollout and what is trained on it is an iteration, of which the rollout is waiting.
    Learning ends early when the pod is to leave.
    """
    from stable_baselines3.common.callbacks import BaseCallback  # noqa: PLC0415  as above

    class Tells(BaseCallback):  # type: ignore[misc]  # its types are the library's
        """Tells, and changes nothing but when learning ends."""

        def __init__(self) -> None:
            super().__init__()
            self._before = 0

        def _on_rollout_start(self) -> None:
            run.worked()
            self._before = self.num_timesteps

        def _on_rollout_end(self) -> None:
            run.iteration(self.num_timesteps - self._before)
            run.report(env_steps=self.num_timesteps)

        def _on_step(self) -> bool:
            return not run.stopping

        def _on_training_end(self) -> None:
            run.worked()
            run.report(env_steps=self.num_timesteps)

    return Tells()


def torch_optimizer(optimizer: Any, run: Training, samples: int) -> Any:
    """Count an iteration with each `optimizer.step()`; returns the handle that removes it again.

    What waits for batches goes into `with run.waiting():`.

    Args:
        optimizer: a `torch.optim.Optimizer`.
        samples: that this process trains on in each step.
    """
    return optimizer.register_step_post_hook(lambda *_: _count(run, samples))


def _count(run: Training, samples: int) -> None:
    # What a hook returns may be taken for something.
    run.iteration(samples)
