"""The files of checkpoints in the job's directory, each complete or not present."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from di_orchestrator.errors import CheckpointLost

KEPT = 2
"""Number of newest checkpoints per name that are kept: the job may have reported the
previous one.
"""
ATTEMPTS = 8
"""Times that a checkpoint gives way to one of the same step by another process."""
_SHARDS = "shards"
"""Stands for the writer of a checkpoint that a whole group writes."""
_TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR)

Write = Callable[[Path], object]


class CheckpointFiles:
    """The checkpoints of one name in a directory: `<name>-<step>`, a file or a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    def save(self, step: int, write: Write) -> None:
        """Write a checkpoint, which replaces one of the same step."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # A name of its own: another process may be saving the same step.
        part = self._part(step, f"{socket.gethostname()}.{os.getpid()}")
        _remove(part)
        write(part)
        self._publish(part, step)

    def found(self) -> list[tuple[int, Path]]:
        """Return steps and paths, the newest last."""
        if not self._folder.is_dir():
            return []
        form = re.compile(rf"{self._name}-([0-9]{{1,18}})")
        matches = ((form.fullmatch(path.name), path) for path in self._folder.iterdir())
        return sorted((int(match[1]), path) for match, path in matches if match)

    def copy_newest(self, source: Path) -> int:
        """Copy the newest complete checkpoint of another directory, whose program may still save;
        return its step.

        Raises:
            CheckpointLost: there is none.
        """
        other = CheckpointFiles(source, self._name)
        for left in range(ATTEMPTS, -1, -1):
            found = dict(other.found())
            recorded = other.claimed()
            # A library can be writing a newer one.
            step = recorded if recorded in found else max(found, default=None)
            if step is None:
                break
            path = found[step]
            try:
                self.save(step, partial(_copy, path))
            except (FileNotFoundError, shutil.Error):
                # Replaced by newer ones meanwhile.
                if not left:
                    raise
            else:
                return step
        raise CheckpointLost(
            f"{source} has no {self._name} to copy, although its trial has reported one: is it on "
            "the same volume?"
        )

    # ------------------------------------------------------------ whose they are
    def claim(self, job: str, step: int) -> None:
        """Record the step that the job with this UID has saved."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # A name of its own: other processes of the job may do the same.
        part = self._folder / f".{self._name}.job.{socket.gethostname()}.{os.getpid()}"
        part.write_text(f"{job} {step}")
        part.replace(self._claims)

    def claimed(self, job: str = "") -> int | None:
        """Return the step that the job with this UID has saved, or any job; None if it has saved
        none.
        """
        try:
            owner, step = self._claims.read_text().split()
            return int(step) if job in ("", owner) else None
        except (OSError, ValueError):
            return None

    @property
    def _claims(self) -> Path:
        return self._folder / f".{self._name}.job"

    # ------------------------------------------------------------ of several processes
    def begin_shards(self, step: int) -> Path:
        """Return the empty folder in which all processes of a group write their parts."""
        part = self._part(step, _SHARDS)
        part.mkdir(parents=True, exist_ok=True)
        # Also an earlier one that was never completed: its other processes have ended by now.
        for left in self._left_behind():
            _remove(left)
        part.mkdir()
        return part

    def write_shard(self, step: int, write: Write) -> None:
        """Write the part of a process that is not the first of its group."""
        part = self._part(step, _SHARDS)
        # Where the directory is a network's, the folder can be late.
        part.mkdir(parents=True, exist_ok=True)
        write(part)
        _flush(part)

    def complete_shards(self, step: int) -> None:
        """Make a checkpoint of what the processes of a group have written."""
        self._publish(self._part(step, _SHARDS), step)

    # ------------------------------------------------------------ inside
    def _part(self, step: int, writer: str) -> Path:
        return self._folder / f".{self._name}-{step}.{writer}.part"

    def _publish(self, part: Path, step: int) -> None:
        """Give a complete checkpoint its final name, and remove what it replaces."""
        _flush(part)
        _replace(part, self._folder / f"{self._name}-{step}")
        _flush_folder(self._folder)
        for _, old in self.found()[:-KEPT]:
            _remove(old)
        for left in self._left_behind():
            _remove(left)

    def _left_behind(self) -> list[Path]:
        """Return incomplete checkpoints of processes of this pod that have ended."""
        host = re.escape(socket.gethostname())
        form = re.compile(rf"\.{self._name}-[0-9]+\.(?:{_SHARDS}|{host}\.([0-9]+))\.part")
        found = ((form.fullmatch(path.name), path) for path in self._folder.iterdir())
        return [
            path for match, path in found if match and not (match[1] and _is_another(int(match[1])))
        ]


def complete_path(part: Path) -> Path:
    """Return the path that a checkpoint has when it is complete, by that at which it is written.

    Raises:
        ValueError: no checkpoint is written at this path.
    """
    hidden, _, writer = part.name[1:].partition(".")
    if not part.name.startswith(".") or not writer.endswith(".part"):
        raise ValueError(f"{part} is not a path at which run.save writes a checkpoint")
    return part.with_name(hidden)


def _copy(source: Path, goal: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, goal, symlinks=True)
    else:
        shutil.copy2(source, goal)


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
        # Another process of the group may rename its files meanwhile.
        if each.is_file():
            with contextlib.suppress(FileNotFoundError), each.open("rb") as file:
                os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
