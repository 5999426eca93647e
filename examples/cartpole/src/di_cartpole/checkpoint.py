"""What the learner keeps where the end of its pod does not reach, for the next one to go on from.

The operator says by `DI_CHECKPOINT_DIR` where that is, and by `DI_RESTORE_STEP` which step the job
has reported as saved; see `spec.checkpoint` of a DIJob.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

FILE = "learner.json"


class Lost(Exception):
    """The job has saved a step, and the directory does not have it: not what was to go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All that the learner needs to go on as if it had never been away.

    Attributes:
        generation: the next one to run.
        env_steps: environment steps so far, the step that is reported as saved.
        seconds: of training so far.
        weights, velocity: the search.
        curve, scaling, extra: the record.
    """

    generation: int
    env_steps: int
    seconds: float
    weights: list[float]
    velocity: list[float]
    curve: list[list[float]]
    scaling: list[list[float]]
    extra: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The directory of checkpoints; without one nothing is kept."""

    folder: Path | None = None
    reported: int | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the variables of the contract."""
        folder, step = environment.get("DI_CHECKPOINT_DIR"), environment.get("DI_RESTORE_STEP")
        return cls(Path(folder) if folder else None, int(step) if step else None)

    def save(self, checkpoint: Checkpoint) -> bool:
        """Put it in the place of the last one; False where nothing is kept."""
        if self.folder is None:
            return False
        part = self.folder / f"{FILE}.part"
        with part.open("w") as file:
            json.dump(asdict(checkpoint), file)
            file.flush()
            os.fsync(file.fileno())
        # At once and not by and by: whenever the pod ends, one whole checkpoint is there.
        part.replace(self.folder / FILE)
        return True

    def load(self) -> Checkpoint | None:
        """The last one; None: the job begins, and what may be there is of an earlier one.

        Raises:
            Lost: there is none, or one of before the step that the job has reported.
        """
        if self.folder is None or self.reported is None:
            return None
        file = self.folder / FILE
        found = Checkpoint(**json.loads(file.read_text())) if file.exists() else None
        if found is None or found.env_steps < self.reported:
            raise Lost(f"{file} does not have step {self.reported}, which the job has saved")
        return found
