"""Checkpoints of a learner: where they are stored, and which step to restore."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from di_orchestrator.errors import BadEnvironment, CheckpointLost
from di_orchestrator.server.exchange import Clock
from di_orchestrator.training_run.checkpoint_files import CheckpointFiles

_COPY_SECONDS = 600.0
"""Seconds that the other processes of a group wait for the copy of a checkpoint."""
_POLL_SECONDS = 0.1


class Checkpoints:
    """The job's directory of checkpoints; without one nothing is saved.

    Attributes:
        folder: the directory, None without one.
        restored_step: the step that the job has reported as saved, or that an earlier process in
            the same pod has saved; None at the first start.
        saved_step: the step that this process saved last, None before.
        files: the checkpoints in the directory, None without one.
        is_asked: whether a checkpoint was requested, and not saved since.
        agree: decides for a whole process group whether one is due; gets what this process would
            decide.
    """

    def __init__(
        self,
        folder: Path | None = None,
        restored_step: int | None = None,
        *,
        every_seconds: float | None = None,
        name: str = "checkpoint",
        job: str = "",
        clock: Clock = time.monotonic,
    ) -> None:
        """`job` is the UID of the job."""
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise ValueError(f"name {name!r}: a checkpoint is called by letters, digits and _")
        self.folder = folder
        self.files = None if folder is None else CheckpointFiles(folder, name)
        if restored_step is None and self.files is not None and job:
            # A container that is restarted in its pod has the variables of the pod's start.
            restored_step = self.files.claimed(job)
        self.restored_step = restored_step
        self._job = job
        self.saved_step: int | None = None
        self._every = every_seconds
        self._name = name
        self._clock = clock
        self._last = clock()
        self.is_asked = False
        self.agree: Callable[[bool], bool] | None = None

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        *,
        every_seconds: float | None = None,
        name: str = "checkpoint",
        copies: bool = True,
        clock: Clock = time.monotonic,
    ) -> Checkpoints:
        """Return the checkpoints of the pod with these variables.

        A trial that is a copy of another one in a sweep gets the newest checkpoint of that one as
        its own (`DI_RESTORE_FROM`), unless it has saved one.

        Args:
            environment: of the pod.
            every_seconds: between two checkpoints.
            name: of the program's checkpoints.
            copies: whether this process copies that checkpoint; False: it waits for the one that
                does.
            clock: returns seconds.

        Raises:
            BadEnvironment: the step to restore is not a number.
            CheckpointLost: there is no checkpoint to copy.
        """
        folder, step = environment.get("DI_CHECKPOINT_DIR"), environment.get("DI_RESTORE_STEP")
        try:
            restored = None if not step else int(float(step))
        except (ValueError, OverflowError):
            raise BadEnvironment(
                f"DI_RESTORE_STEP is {step!r}, and should be the step of a checkpoint: the "
                "operator sets it in pods of a DIJob; does the template set it?"
            ) from None
        found = cls(
            Path(folder) if folder else None,
            restored,
            every_seconds=every_seconds,
            name=name,
            job=environment.get("DI_JOB_UID", ""),
            clock=clock,
        )
        source = environment.get("DI_RESTORE_FROM")
        if source and found.restored_step is None and found.files is not None:
            found._adopt(Path(source), copies=copies)
        return found

    def _adopt(self, source: Path, *, copies: bool) -> None:
        """Make the newest checkpoint in another directory the one to restore."""
        assert self.files is not None, "there is a directory"
        if copies:
            self.restored_step = self.files.copy_newest(source)
            self.completed(self.restored_step)
            # This process has not saved it.
            self.saved_step = None
            return
        until = self._clock() + _COPY_SECONDS
        while self.restored_step is None:
            if self._clock() >= until:
                raise CheckpointLost(
                    f"{self.folder} has no copy of the checkpoint in {source} after "
                    f"{_COPY_SECONDS:g} s: has the first process of the group ended?"
                )
            time.sleep(_POLL_SECONDS)
            self.restored_step = self.files.claimed(self._job)

    @property
    def is_due(self) -> bool:
        """Return whether to save now: after `every_seconds`, or when the pod has to leave.

        In a process group all processes get the answer of the first one.
        """
        is_over = self._every is not None and self._clock() - self._last >= self._every
        own = self.is_asked or is_over
        return own if self.agree is None else self.agree(own)

    def ask(self) -> None:
        """Request a checkpoint as soon as the program can save one."""
        self.is_asked = True

    def save(self, step: int, write: Callable[[Path], object]) -> bool:
        """Save a checkpoint; it gets its final name only when it is complete.

        Args:
            step: of the checkpoint; reported as saved from now on.
            write: called with the path of a file, or folder, to create.

        Returns whether it was saved: False without a directory.
        """
        self.passed()
        if self.files is None:
            return False
        self.files.save(step, write)
        self.completed(step)
        return True

    def saved(self, step: int) -> None:
        """Record a checkpoint that the program, or a library, has saved by itself.

        Args:
            step: of the checkpoint; reported as saved from now on.
        """
        self.passed()
        self.completed(step)

    def completed(self, step: int) -> None:
        """Record that the checkpoint of a step is complete."""
        self.saved_step = step
        if self.files is not None and self._job:
            self.files.claim(self._job, step)

    def passed(self) -> None:
        """Begin a new interval of `every_seconds`: another process of the group saves."""
        self._last, self.is_asked = self._clock(), False

    def restore(self, *, is_complete: Callable[[Path], bool] | None = None) -> Path | None:
        """Return the checkpoint to restore; None at the first start, even if an earlier job left
        one.

        Args:
            is_complete: checks a checkpoint that a library has written, which can be incomplete.

        Raises:
            CheckpointLost: the job has saved a step, and neither that nor a later one exists.
        """
        if self.files is None or self.restored_step is None:
            return None
        found = self.files.found()
        if is_complete is not None:
            found = [(step, path) for step, path in found if is_complete(path)]
        if not found or found[-1][0] < self.restored_step:
            raise CheckpointLost(
                f"{self.folder} does not have {self._name} of step {self.restored_step}, which the "
                "job has reported as saved: is it the volume of this job, and does every learner "
                "see it?"
            )
        return found[-1][1]

    @property
    def step_of_restored(self) -> int | None:
        """Return the step of the checkpoint that `restore` finds, which can be later than the
        reported one.
        """
        return None if (path := self.restore()) is None else int(path.name.rpartition("-")[2])
