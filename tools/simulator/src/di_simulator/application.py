"""What the recorded applications would do on any placement and at any batch size.

The recordings are those of the Pollux artifact (OSDI'21); those of steps may be others, by kind of
node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from di_operator.allocator.goodput.params import BatchLimits
from di_simulator.step_times import Array, StepTimes, read_table

# Epochs to train for (the artifact's settings).
EPOCHS: Mapping[str, int] = {
    "bert": 2,
    "cifar10": 100,
    "ncf": 10,
    "imagenet": 90,
    "deepspeech2": 80,
    "yolov3": 50,
}
# Largest batch of one replica that never has company.
LOCAL_MAXIMUM: Mapping[str, int] = {"ncf": 32768}


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One recorded training at a fixed batch size, by epoch."""

    progress: Array
    iteration: Array
    grad_sqr: Array
    grad_var: Array


@dataclass(slots=True, kw_only=True)
class Application:
    """A recorded application. Times in seconds, batch sizes in samples.

    Progress is counted in iterations at the initial batch size.
    """

    name: str
    epochs: int
    limits: BatchLimits
    """Those of the kind of node on which least is possible."""
    validations: Mapping[int, Validation]
    times: Mapping[str, StepTimes]
    """By kind of node."""

    @classmethod
    def load(cls, folder: Path, times: Mapping[str, StepTimes] | None = None) -> Application:
        """Read the recordings of one application, but for `times` that are given.

        Raises OSError, KeyError or ValueError.
        """
        validations = {
            int(path.stem.partition("-")[2]): _validation(path)
            for path in folder.glob("validation-*.csv")
        }
        times = times or {"": StepTimes.load(folder, most=LOCAL_MAXIMUM.get(folder.name))}
        sizes = sorted(validations)
        return cls(
            name=folder.name,
            epochs=EPOCHS[folder.name],
            limits=BatchLimits(
                initial=sizes[0],
                maximum=sizes[-1],
                local_min=max(each.local_min for each in times.values()),
                local_max=min(each.local_max for each in times.values()),
            ),
            validations={size: validations[size] for size in sizes},
            times=times,
        )

    def limits_on(self, kinds: Collection[str]) -> BatchLimits:
        """The limits on nodes of these kinds: the memory of the smallest counts."""
        times = [self.times[kind] for kind in kinds]
        return replace(
            self.limits,
            local_min=max(each.local_min for each in times),
            local_max=min(each.local_max for each in times),
        )

    def step(
        self, placement: Sequence[int], local_batch: int, kinds: Collection[str] = ("",)
    ) -> tuple[float, float]:
        """Seconds of one step and of the synchronising in it, by replicas on each node.

        On nodes of several `kinds` the replicas wait for the slowest: the times are those on nodes
        of that kind alone. Raises ValueError where nothing was recorded.
        """
        try:
            return max(self.times[kind].step(placement, local_batch) for kind in kinds)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def progress_after(self, epoch: int) -> float:
        """Progress at the end of that many epochs."""
        if epoch == 0:
            return 0.0
        return min(float(v.progress[epoch - 1]) for v in self.validations.values())

    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient in an epoch."""
        lower, upper, weight = self._between(batch)
        return (
            _mix(lower.grad_sqr[epoch], upper.grad_sqr[epoch], weight),
            _mix(lower.grad_var[epoch], upper.grad_var[epoch], weight),
        )

    def iterations_after(self, batch: int, epoch: int) -> float:
        """Iterations it takes to get behind an epoch (counted from 0) at a fixed batch size."""
        lower, upper, weight = self._between(batch)
        return _mix(lower.iteration[epoch], upper.iteration[epoch], weight)

    def _between(self, batch: int) -> tuple[Validation, Validation, float]:
        lower = max(size for size in self.validations if size <= batch)
        upper = min(size for size in self.validations if size >= batch)
        weight = (batch - lower) / (upper - lower) if upper > lower else 0.0
        return self.validations[lower], self.validations[upper], weight


def load_applications(folder: Path, tables: Path | None = None) -> dict[str, Application]:
    """Read all applications of a folder of traces; with step times by kind of node, those that
    `tables` has: `<application>/placements-<kind>.csv` and `scalability-<kind>.csv`.

    Raises as Application.load does.
    """
    if tables is None:
        return {p.name: Application.load(p) for p in sorted(folder.iterdir()) if p.is_dir()}
    return {
        path.name: Application.load(folder / path.name, _times_by_kind(path))
        for path in sorted(tables.iterdir())
        if path.is_dir()
    }


def _times_by_kind(folder: Path) -> dict[str, StepTimes]:
    kinds = sorted(path.stem.partition("-")[2] for path in folder.glob("placements-*.csv"))
    most = LOCAL_MAXIMUM.get(folder.name)
    if not kinds:
        raise ValueError(f"no placements-<kind>.csv in {folder}")
    return {kind: StepTimes.load(folder, kind=kind, most=most) for kind in kinds}


def _validation(path: Path) -> Validation:
    rows = read_table(path)

    def column(name: str) -> Array:
        return np.array([float(row[name]) for row in rows])

    return Validation(
        progress=column("progress"),
        iteration=column("iteration"),
        grad_sqr=column("grad_sqr"),
        grad_var=column("grad_var"),
    )


def _mix(lower: float, upper: float, weight: float) -> float:
    return float((1 - weight) * lower + weight * upper)
