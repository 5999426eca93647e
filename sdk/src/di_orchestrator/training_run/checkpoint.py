"""Checkpoints of a learner: where they are stored, and which step to restore."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from di_orchestrator.errors import BadEnvironment, CheckpointLost
from di_orchestrator.server.exchange import Clock

KEPT = 2
"""Number of newest checkpoints per name that are kept: the job may have reported the
previous one.
"""


class Checkpoints:
    """The job's directory of checkpoints; without one nothing is saved.

    Attributes:
        folder: the directory, None without one.
        restored_step: the step that the job has reported as saved, None at the first start.
        saved_step: the step that this process saved last, None before.
    """

    def __init__(
        self,
        folder: Path | None = None,
        restored_step: int | None = None,
        *,
        every_seconds: float | None = None,
        name: str = "checkpoint",
        clock: Clock = time.monotonic,
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]+", name):
            raise ValueError(f"name {name!r}: a checkpoint is called by letters, digits and _")
        self.folder = folder
        self.restored_step = restored_step
        self.saved_step: int | None = None
        self._every = every_seconds
        self._name = name
        self._clock = clock
        self._last = clock()
        self._is_asked = False

    @classmethod
    def of(
        cls,
        environment: Mapping[str, str],
        *,
        every_seconds: float | None = None,
        name: str = "checkpoint",
        clock: Clock = time.monotonic,
    ) -> Checkpoints:
        """Return the checkpoints of the pod with these variables.

        Raises:
            BadEnvironment: the step to restore is not a number.
        """
        folder, step = environment.get("DI_CHECKPOINT_DIR"), environment.get("DI_RESTORE_STEP")
        try:
            restored = None if not step else int(float(step))
        except (ValueError, OverflowError):
            raise BadEnvironment(
                f"DI_RESTORE_STEP is {step!r}, and should be the step of a checkpoint: the "
                "operator sets it in pods of a DIJob; does the template set it?"
            ) from None
        return cls(
            Path(folder) if folder else None,
            restored,
            every_seconds=every_seconds,
            name=name,
            clock=clock,
        )

    @property
    def is_due(self) -> bool:
        """Return whether to save now: after `every_seconds`, or when the pod has to leave."""
        if self._is_asked:
            return True
        return self._every is not None and self._clock() - self._last >= self._every

    def ask(self) -> None:
        """Request a checkpoint as soon as the program can save one."""
        self._is_asked = True

    def save(self, step: int, write: Callable[[Path], object]) -> bool:
        """Save a checkpoint; it gets its final name only when it is complete.

        Args:
            step: of the checkpoint; reported as saved from now on.
            write: called with the path of a file, or folder, to create.

        Returns whether it was saved: False without a directory.
        """
        self._last, self._is_asked = self._clock(), False
        if self.folder is None:
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".{self._name}-{step}.part"
        _remove(part)
        write(part)
        _flush(part)
        goal = self.folder / f"{self._name}-{step}"
        _remove(goal)
        # One atomic rename: whenever the pod ends, a complete checkpoint exists.
        part.replace(goal)
        _flush_folder(self.folder)
        self.saved_step = step
        for _, old in self._found()[:-KEPT]:
            _remove(old)
        return True

    def restore(self) -> Path | None:
        """Return the checkpoint to restore; None at the first start, even if an earlier job left
        one.

        Raises:
            CheckpointLost: the job has saved a step, and neither that nor a later one exists.
        """
        if self.folder is None or self.restored_step is None:
            return None
        found = self._found()
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

    def _found(self) -> list[tuple[int, Path]]:
        """Return steps and paths, the newest last."""
        if self.folder is None or not self.folder.is_dir():
            return []
        form = re.compile(rf"{self._name}-([0-9]{{1,18}})")
        matches = ((form.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted((int(match[1]), path) for match, path in matches if match)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if each.is_file():
            with each.open("rb") as file:
                os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
