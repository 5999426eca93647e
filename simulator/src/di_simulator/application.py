"""What the recorded applications would do on any placement and at any batch size.

The recordings are those of the Pollux artifact (OSDI'21). Between recorded points everything is
interpolated linearly, as the artifact does, so that results can be compared with its own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator

from di_operator.allocator.goodput.params import BatchLimits

Array = NDArray[np.float64]

# Epochs to train for (the artifact's settings).
EPOCHS: Mapping[str, int] = {
    "bert": 2,
    "cifar10": 100,
    "ncf": 10,
    "imagenet": 90,
    "deepspeech2": 80,
    "yolov3": 50,
}
# Largest batch of one replica, where it is less than what was recorded.
LOCAL_MAXIMUM: Mapping[str, int] = {"yolov3": 8}
_TIMES = ("step_time", "sync_time")
_RECORDED_NODES = 16


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
    validations: Mapping[int, Validation]
    placements: Mapping[str, Array]
    """By placement (digits: replicas on each node): rows of local batch, step and sync time."""
    _scattered: LinearNDInterpolator
    _steps: dict[tuple[tuple[int, ...], int], tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Application:
        """Read the recordings of one application. Raises OSError, KeyError or ValueError."""
        validations = {
            int(path.stem.partition("-")[2]): _validation(path)
            for path in folder.glob("validation-*.csv")
        }
        rows = _read(folder / "placements.csv")
        placements: dict[str, list[list[float]]] = {}
        for row in rows:
            columns = ("local_bsz", *_TIMES)
            placements.setdefault(row["placement"], []).append([float(row[c]) for c in columns])
        local = [int(row["local_bsz"]) for row in rows]
        points, values = _scatter(rows, _read(folder / "scalability.csv"))
        sizes = sorted(validations)
        return cls(
            name=folder.name,
            epochs=EPOCHS[folder.name],
            limits=BatchLimits(
                initial=sizes[0],
                maximum=sizes[-1],
                local_min=min(local),
                local_max=LOCAL_MAXIMUM.get(folder.name, max(local)),
            ),
            validations={size: validations[size] for size in sizes},
            placements={name: np.array(found) for name, found in placements.items()},
            _scattered=LinearNDInterpolator(points, values),
        )

    def step(self, placement: Sequence[int], local_batch: int) -> tuple[float, float]:
        """Seconds of one step and of the synchronising in it, by replicas on each node."""
        # A ring has no first node.
        key = (_smallest_rotation(tuple(placement)), local_batch)
        if key not in self._steps:
            self._steps[key] = self._interpolated(*key)
        return self._steps[key]

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

    def _interpolated(self, placement: tuple[int, ...], local_batch: int) -> tuple[float, float]:
        recorded = self.placements.get("".join(map(str, placement)))
        if recorded is not None:
            if not recorded[0, 0] <= local_batch <= recorded[-1, 0]:
                raise ValueError(f"{self.name}: nothing recorded for {local_batch} a replica")
            step, sync = (
                float(np.interp(local_batch, recorded[:, 0], recorded[:, i])) for i in (1, 2)
            )
        else:
            nodes = min(len(placement), _RECORDED_NODES)
            step, sync = map(float, self._scattered([nodes, sum(placement), local_batch])[0])
        if np.isnan(step):
            raise ValueError(f"{self.name}: nothing recorded near {placement}, {local_batch}")
        return step, sync


def load_applications(folder: Path) -> dict[str, Application]:
    """Read all applications of a folder of traces. Raises as Application.load does."""
    return {path.name: Application.load(path) for path in sorted(folder.iterdir()) if path.is_dir()}


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def _validation(path: Path) -> Validation:
    rows = _read(path)

    def column(name: str) -> Array:
        return np.array([float(row[name]) for row in rows])

    return Validation(
        progress=column("progress"),
        iteration=column("iteration"),
        grad_sqr=column("grad_sqr"),
        grad_var=column("grad_var"),
    )


def _scatter(
    placements: Iterable[Mapping[str, str]], scalability: Iterable[Mapping[str, str]]
) -> tuple[Array, Array]:
    """Points of nodes, replicas and local batch, with the mean times of all placements there."""
    means: dict[tuple[float, float, float], list[tuple[float, float]]] = {}
    for row in placements:
        digits = [int(digit) for digit in row["placement"]]
        point = (float(len(digits)), float(sum(digits)), float(row["local_bsz"]))
        means.setdefault(point, []).append((float(row["step_time"]), float(row["sync_time"])))
    points = sorted(means)
    values = [tuple(np.mean(means[point], axis=0)) for point in points]
    for row in scalability:
        points.append(
            (float(row["num_nodes"]), float(row["num_replicas"]), float(row["local_bsz"]))
        )
        values.append((float(row["step_time"]), float(row["sync_time"])))
    return np.array(points), np.array(values)


def _smallest_rotation(placement: tuple[int, ...]) -> tuple[int, ...]:
    return min(placement[i:] + placement[:i] for i in range(len(placement)))


def _mix(lower: float, upper: float, weight: float) -> float:
    return float((1 - weight) * lower + weight * upper)
