"""The speed of jobs by size, remembered from one decision to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from di_operator.allocator.goodput.model import Array, goodputs
from di_operator.allocator.goodput.params import GoodputModel
from di_operator.allocator.goodput.sizes import nodes_of

_Key: TypeAlias = "tuple[GoodputModel, tuple[int, ...], int]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which sizes of a model are of interest, with so many replicas to a node."""

    model: GoodputModel
    sizes: tuple[int, ...]
    """Rising, 0 first."""
    per_node: int


class Curves:
    """Computes curves for many jobs at once, and only those that were not asked for last time.

    Only memory of what follows from the arguments: a restart costs time, never a decision.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, Array] = {}

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Array]:
        """Return each job's goodput by size, in samples per second; 0 for size 0."""
        keys = {job: (q.model, q.sizes, q.per_node) for job, q in questions.items()}
        grids: dict[tuple[tuple[int, ...], int], list[_Key]] = {}
        for key in dict.fromkeys(keys.values()):
            if key not in self._known:
                grids.setdefault(key[1:], []).append(key)
        for (sizes, per_node), missing in grids.items():
            curves = _compute([key[0] for key in missing], sizes, per_node)
            self._known.update(zip(missing, curves, strict=True))
        self._known = {key: self._known[key] for key in keys.values()}
        return {job: self._known[key] for job, key in keys.items()}


def _compute(models: Sequence[GoodputModel], sizes: Sequence[int], per_node: int) -> list[Array]:
    replicas = np.array(sizes[1:], dtype=float)
    nodes = np.array([nodes_of(size, per_node) for size in sizes[1:]], dtype=float)
    found = goodputs(models, nodes, replicas)
    return [np.concatenate(([0.0], row)) for row in found]
