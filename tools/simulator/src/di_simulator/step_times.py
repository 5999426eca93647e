"""How long a step of an application takes on nodes of one kind, as was recorded.

Between recorded points everything is interpolated linearly, as the Pollux artifact (OSDI'21) does,
so that results can be compared with its own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import LinearNDInterpolator

Array = NDArray[np.float64]
_TIMES = ("step_time", "sync_time")


@dataclass(slots=True, kw_only=True)
class StepTimes:
    """Times in seconds, local batches in samples.

    Placements say how many replicas run on each node. A node that takes more replicas than any
    that was recorded counts as several, and beyond the most nodes or replicas that were recorded
    the times are those of that many.
    """

    local_min: int
    local_max: int
    placements: Mapping[str, Array]
    """By placement (digits: replicas on each node): rows of local batch, step and sync time."""
    _scattered: LinearNDInterpolator
    _per_node: int
    _most_nodes: int
    _most_replicas: int
    _known: dict[tuple[tuple[int, ...], int], tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, *, kind: str = "", most: int | None = None) -> StepTimes:
        """Read the recordings of one application on one kind of node, `""` if there is but one;
        `most`: the largest local batch; None: the largest that both tables have.

        Raises OSError, KeyError or ValueError.
        """
        suffix = f"-{kind}" if kind else ""
        rows = read_table(folder / f"placements{suffix}.csv")
        placements: dict[str, list[list[float]]] = {}
        for row in rows:
            columns = ("local_bsz", *_TIMES)
            placements.setdefault(row["placement"], []).append([float(row[c]) for c in columns])
        local = [int(row["local_bsz"]) for row in rows]
        scalability = read_table(folder / f"scalability{suffix}.csv")
        points, values = _scatter(rows, scalability)
        if most is None:
            # What was recorded on few nodes only is not to be had on many.
            most = min(max(local), max(int(row["local_bsz"]) for row in scalability))
        return cls(
            local_min=min(local),
            local_max=most,
            placements={name: np.array(found) for name, found in placements.items()},
            _scattered=LinearNDInterpolator(points, values),
            _per_node=max(int(digit) for name in placements for digit in name),
            _most_nodes=int(np.max(points[:, 0])),
            _most_replicas=int(np.max(points[:, 1])),
        )

    def step(self, placement: Sequence[int], local_batch: int) -> tuple[float, float]:
        """Seconds of one step and of the synchronising in it. Raises ValueError where nothing was
        recorded.
        """
        parts = tuple(part for count in placement for part in self._parts(count))
        # A ring has no first node.
        key = (_smallest_rotation(parts), local_batch)
        if key not in self._known:
            self._known[key] = self._interpolated(*key)
        return self._known[key]

    def _parts(self, count: int) -> Iterable[int]:
        whole, rest = divmod(count, self._per_node)
        return (self._per_node,) * whole + ((rest,) if rest else ())

    def _interpolated(self, placement: tuple[int, ...], local_batch: int) -> tuple[float, float]:
        recorded = self.placements.get("".join(map(str, placement)))
        if recorded is not None and recorded[0, 0] <= local_batch <= recorded[-1, 0]:
            step, sync = (
                float(np.interp(local_batch, recorded[:, 0], recorded[:, i])) for i in (1, 2)
            )
        else:
            nodes = min(len(placement), self._most_nodes)
            replicas = min(sum(placement), self._most_replicas)
            step, sync = map(float, self._scattered([nodes, replicas, local_batch])[0])
        if np.isnan(step):
            raise ValueError(f"nothing recorded near {placement}, {local_batch}")
        return step, sync


def read_table(path: Path) -> list[dict[str, str]]:
    """Read a CSV file. Raises OSError."""
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


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
