"""Hooks that report the training of another library without changes of its loop.

Each hook imports its library when it is created; the import of this module imports none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from di_orchestrator.training_run.ditask import Told
from di_orchestrator.training_run.training import Training

_ARGUMENTS = ("samples", "step")
"""Names that have a meaning of their own in a report."""


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
    """Return a callback for `model.learn(..., callback=...)` that reports, saves and resumes.

    Each rollout with the training on it is an iteration, in which the rollout is waiting. The mean
    return of the last episodes is reported as `episodeReturn`, if a `Monitor` measures it.
    Parameters and the number of steps are saved when a checkpoint is due, and restored when the
    learning begins; a replay buffer is not. Learning ends early when the pod has to leave.
    """
    from stable_baselines3.common.callbacks import BaseCallback  # noqa: PLC0415  as above

    class Tells(BaseCallback):  # type: ignore[misc]  # its types are the library's
        """A callback that reports, saves, and can end the learning."""

        def __init__(self) -> None:
            super().__init__()
            self._before = 0
            self._began = 0

        def _on_training_start(self) -> None:
            found = run.checkpoint.restore()
            # A model that the program has loaded is further.
            if found is not None and not self.model.num_timesteps:
                self.model.set_parameters(str(found))
                self.num_timesteps = run.checkpoint.step_of_restored or 0
                self.model.num_timesteps = self.num_timesteps
            self._began = self.num_timesteps

        def _on_rollout_start(self) -> None:
            # What the last rollout has taught is in the parameters by now.
            self._save_if_due()
            run.worked()
            self._before = self.num_timesteps

        def _on_rollout_end(self) -> None:
            run.iteration(self.num_timesteps - self._before)
            self._report()

        def _on_step(self) -> bool:
            return not run.stopping

        def _on_training_end(self) -> None:
            self._save_if_due()
            run.worked()
            self._report()

        def _save_if_due(self) -> None:
            # Before the first rollout there is nothing to save.
            if self.num_timesteps > self._began and run.checkpoint.is_due:
                run.save(self._write, step=self.num_timesteps)

        def _write(self, path: Path) -> None:
            # The library gives a path another name, and a file none.
            with path.open("wb") as file:
                self.model.save(file)

        def _report(self) -> None:
            returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            mean = {"episodeReturn": sum(returns) / len(returns)} if returns else {}
            run.report(env_steps=self.num_timesteps, **mean)

    return Tells()


def torch_optimizer(optimizer: Any, run: Training, samples: int) -> Any:
    """Count an iteration with each `optimizer.step()`; return the handle that removes the hook.

    Wrap code that waits for batches in `with run.waiting():`.

    Args:
        optimizer: a `torch.optim.Optimizer`.
        samples: number that this process trains on in each step.
    """
    return optimizer.register_step_post_hook(lambda *_: _count(run, samples))


def transformers(run: Training) -> Any:
    """Return a callback for a `Trainer` of Transformers or TRL that reports, saves and stops.

    The trainer saves when `run.checkpoint.is_due`, in all processes at one step, and stops when the
    pod has to leave. Its `output_dir` is `run.checkpoint.folder`. Continue with
    `trainer.train(resume_from_checkpoint=callback.resume_from)`, which is None at the first start.
    """
    from transformers import TrainerCallback  # noqa: PLC0415  as above

    class Tells(TrainerCallback):  # type: ignore[misc]  # its types are the library's
        """A callback that reports, and requests checkpoints and the end."""

        @property
        def resume_from(self) -> str | None:
            """Return the folder of the checkpoint to continue from; None at the first start."""
            # The trainer writes this file last.
            found = run.checkpoint.restore(
                is_complete=lambda path: (path / "trainer_state.json").is_file()
            )
            return None if found is None else str(found)

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            run.report(state.global_step, total_steps=state.max_steps)

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            run.iteration(args.train_batch_size * args.gradient_accumulation_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            run.worked()
            run.report(state.global_step)
            # Both are read in each step, because the processes of a group read the same.
            is_due, stops = run.checkpoint.is_due, run.stopping
            control.should_save = control.should_save or is_due
            control.should_training_stop = control.should_training_stop or stops

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            run.saved(state.global_step)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = {key: value for key, value in (logs or {}).items() if key not in _ARGUMENTS}
            run.report(state.global_step, **values)

    return Tells()


def _count(run: Training, samples: int) -> None:
    # torch can use the result of a hook.
    run.iteration(samples)
