"""Checkpoints of a learner: where they are stored, and which step to restore."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from di_orchestrator.errors import BadEnvironment, CheckpointLost
from di_orchestrator.server.exchange import Clock

KEPT = 2
"""Number of newest checkpoints per name that are kept: the job may have reported the
previous one.
"""
ATTEMPTS = 8
"""Times that a checkpoint gives way to one of the same step by another process."""
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR)


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
        self.passed()
        if self.folder is None:
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        # A name of its own: another process may be saving the same step.
        part = self.folder / f".{self._name}-{step}.{self._writer}.part"
        _remove(part)
        write(part)
        _flush(part)
        self._publish(part, step)
        return True

    def saved(self, step: int) -> None:
        """Record a checkpoint that the program, or a library, has saved by itself.

        Args:
            step: of the checkpoint; reported as saved from now on.
        """
        self.passed()
        self.saved_step = step

    def passed(self) -> None:
        """Begin a new interval of `every_seconds`: another process of the group saves."""
        self._last, self._is_asked = self._clock(), False

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

    def _publish(self, part: Path, step: int) -> None:
        """Give a complete checkpoint its final name, and remove what it replaces."""
        assert self.folder is not None
        _replace(part, self.folder / f"{self._name}-{step}")
        _flush_folder(self.folder)
        self.saved_step = step
        for _, old in self._found()[:-KEPT]:
            _remove(old)
        for left in self._left_behind():
            _remove(left)

    @property
    def _writer(self) -> str:
        return f"{socket.gethostname()}.{os.getpid()}"

    def _left_behind(self) -> list[Path]:
        """Return incomplete checkpoints of processes of this pod that have ended."""
        assert self.folder is not None
        host = re.escape(socket.gethostname())
        form = re.compile(rf"\.{self._name}-[0-9]+\.{host}\.([0-9]+)\.part")
        found = ((form.fullmatch(path.name), path) for path in self.folder.iterdir())
        return [path for match, path in found if match and not _is_another(int(match[1]))]

    def _found(self) -> list[tuple[int, Path]]:
        """Return steps and paths, the newest last."""
        if self.folder is None or not self.folder.is_dir():
            return []
        form = re.compile(rf"{self._name}-([0-9]{{1,18}})")
        matches = ((form.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted((int(match[1]), path) for match, path in matches if match)


def _replace(part: Path, goal: Path) -> None:
    """Rename in one atomic step: whenever the pod ends, a complete checkpoint exists.

    Another process that saves the same step can be faster; a folder cannot replace its folder.
    """
    for left in range(ATTEMPTS, -1, -1):
        _remove(goal)
        try:
            part.replace(goal)
        except OSError as error:
            if not left or error.errno not in _TAKEN:
                raise
        else:
            return


def _is_another(process: int) -> bool:
    """Return whether this is a running process other than the present one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # of another user
    return True


def _remove(path: Path) -> None:
    for left in range(ATTEMPTS, -1, -1):
        error = _removal_error(path)
        if error is None:
            return
        # Another process removes or replaces it, too.
        if not left or error.errno not in (*_TAKEN, errno.ENOENT):
            raise error


def _removal_error(path: Path) -> OSError | None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None


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
