"""Hooks that report the training of another library without changes of its loop.

Each hook imports its library when it is created; the import of this module imports none.
"""

from __future__ import annotations

from typing import Any

from di_orchestrator.training_run.ditask import Told
from di_orchestrator.training_run.training import Training


def di_engine(task: Any, run: Training, samples: int) -> None:
    """Make a `ditask` report its progress, and leave by itself when its pod has to.

    Call it in `with task.start(...)`, before the first `task.use`. Learners report; collecting and
    receiving samples counts as waiting. A process that has to leave finishes its iteration and
    ends, and so does one that fails. Without this hook all other processes would finish with it.

    Args:
        task: DI-engine's; it has the roles.
        samples: number of samples of one update, the batch size.
    """
    told = Told(task, run, samples)
    task.use(told.middleware)
    task.use_wrapper(told.wrapper)


def gymnasium(env: Any, run: Training) -> Any:
    """Return the environment in a wrapper that reports its steps as `env_steps`, and each episode's
    return.

    Args:
        env: one `gymnasium.Env`, not a vector of them.
    """
    from gymnasium import Wrapper  # noqa: PLC0415  only who uses it has it

    class Told(Wrapper):
        """A wrapper that counts and changes nothing."""

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
    """Return a callback for `model.learn(..., callback=...)`.

    Each rollout with the training on it is an iteration, in which the rollout is waiting. Learning
    ends early when the pod has to leave.
    """
    from stable_baselines3.common.callbacks import BaseCallback  # noqa: PLC0415  as above

    class Tells(BaseCallback):  # type: ignore[misc]  # its types are the library's
        """A callback that reports, and can end the learning."""

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
    """Count an iteration with each `optimizer.step()`; return the handle that removes the hook.

    Wrap code that waits for batches in `with run.waiting():`.

    Args:
        optimizer: a `torch.optim.Optimizer`.
        samples: number that this process trains on in each step.
    """
    return optimizer.register_step_post_hook(lambda *_: _count(run, samples))


def _count(run: Training, samples: int) -> None:
    # torch can use the result of a hook.
    run.iteration(samples)
