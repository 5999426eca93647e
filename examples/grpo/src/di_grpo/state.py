"""What the first learner keeps, for the process that is started in its place to go on from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from di_grpo.model.adam import Adam
from di_grpo.model.weights import Weights
from di_orchestrator.arrays import pack, unpack

FILE = "state.npz"
RATE = 6e-4
Series = dict[str, list[list[float]]]
"""[seconds of training, value] of what is measured, by name."""


@dataclass(slots=True, kw_only=True)
class State:
    """All of a training.

    Attributes:
        version: steps so far, which is the version of the weights.
        engines: rollout engines that the job has been asked for.
        seconds: of training so far.
        drained: engines that have left.
        lost: batches that these began and did not bring.
        series: what was measured.
    """

    weights: Weights
    adam: Adam
    version: int
    engines: int
    seconds: float
    series: Series
    drained: int = 0
    lost: int = 0

    @classmethod
    def first(cls, base: Path, *, engines: int) -> Self:
        """That of the beginning: weights that imitate."""
        with np.load(base, allow_pickle=False) as weights:
            return cls(
                weights=dict(weights),
                adam=Adam(RATE),
                version=0,
                engines=engines,
                seconds=0.0,
                series={},
            )

    def save(self, folder: Path) -> None:
        """Put it in the place of the last one."""
        message = pack(
            version=self.version,
            engines=self.engines,
            seconds=self.seconds,
            series=json.dumps(self.series),
            drained=self.drained,
            lost=self.lost,
            **{f"weights {name}": part for name, part in self.weights.items()},
            **{f"first {name}": part for name, part in self.adam.first.items()},
            **{f"second {name}": part for name, part in self.adam.second.items()},
        )
        part = folder / f"{FILE}.part"
        part.write_bytes(message)
        # At once and not by and by: whenever the process ends, one whole state is there.
        part.replace(folder / FILE)

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """What was saved; None: nothing was."""
        file = folder / FILE
        if not file.exists():
            return None
        held = unpack(file.read_bytes())

        def named(kind: str) -> Weights:
            return {
                key.removeprefix(f"{kind} "): part
                for key, part in held.items()
                if key.startswith(f"{kind} ")
            }

        version = int(held["version"])
        return cls(
            weights=named("weights"),
            adam=Adam(RATE, version, named("first"), named("second")),
            version=version,
            engines=int(held["engines"]),
            seconds=float(held["seconds"]),
            series=json.loads(str(held["series"])),
            drained=int(held["drained"]),
            lost=int(held["lost"]),
        )
