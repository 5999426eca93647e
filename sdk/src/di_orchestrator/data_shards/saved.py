"""The position in a data set as a part of a checkpoint: a file beside it, complete before it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from di_orchestrator.errors import CheckpointLost
from di_orchestrator.training_run.checkpoint_files import complete_path


class Restoring(Protocol):
    """The checkpoints of a training."""

    def restore(self) -> Path | None:
        """Return the checkpoint to restore; None at the first start."""
        ...


class Saving(Protocol):
    """A training that saves checkpoints."""

    @property
    def checkpoint(self) -> Restoring:
        """Its checkpoints."""
        ...


def writer(
    write: Callable[[Path], object], name: str, read: Callable[[], Mapping[str, Any]]
) -> Callable[[Path], None]:
    """Return a function for `Training.save` that also writes the position of a data set.

    Args:
        write: writes the checkpoint itself.
        read: returns the position as it is now.
    """

    def written(path: Path) -> None:
        # Before the checkpoint: what is done later is given out again after a restore, and what
        # the checkpoint has learned is never lost.
        position = json.dumps(dict(read()))
        write(path)
        goal = _beside(complete_path(path), name)
        part = goal.with_name(f".{goal.name}.part")
        with part.open("w") as file:
            file.write(position)
            file.flush()
            os.fsync(file.fileno())
        part.replace(goal)
        _remove_old(goal, name)

    return written


def saved_position(checkpoint: Path, name: str) -> dict[str, Any]:
    """Return the position that was saved with a checkpoint.

    Raises:
        CheckpointLost: the checkpoint was saved without it.
    """
    path = _beside(checkpoint, name)
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointLost(
            f"{checkpoint} has no position of {name} beside it ({error}): save with "
            "run.save(shards.saving(write)), or do not call shards.resume"
        ) from None
    return found


def _beside(checkpoint: Path, name: str) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.shards-{name}.json")


def _remove_old(newest: Path, name: str) -> None:
    """Remove the positions of checkpoints that exist no more."""
    end = f".shards-{name}.json"
    for each in newest.parent.glob(f"*{end}"):
        if each != newest and not each.with_name(each.name[: -len(end)]).exists():
            each.unlink()
