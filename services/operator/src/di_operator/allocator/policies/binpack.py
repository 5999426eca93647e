"""The policy `binpack`: fill the fullest nodes first, by a weighted share of their resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import TaskInfo
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.sharing.fair_shares import DEFAULT_AGEING, DEFAULT_SHARE

_OTHER_WEIGHT = 1.0


class BinpackPolicy(FitPolicy):
    """Binpacking: each replica goes to the node of the highest score on which it fits.

    The score of a node is the mean over the requested resources of (used + requested) /
    allocatable, weighted by `weights` (resource name to weight; 1 for those not named). A resource
    of weight 0 does not count. Admission and shares are those of `fit`.

    Raises ValueError for a weight that is negative or not a number, and as `fit` does.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        backfill: bool | str = True,
        shares: Mapping[str, float] | None = None,
        default_share: float = DEFAULT_SHARE,
        ageing_seconds: float = DEFAULT_AGEING,
        queues: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            backfill=backfill,
            shares=shares,
            default_share=default_share,
            ageing_seconds=ageing_seconds,
            queues=queues,
        )
        self._weights = dict(weights or {})
        for resource, weight in self._weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
                raise ValueError(f"weights: {resource}: {weight!r}: must be a number >= 0")

    @override
    def choose_node(self, capacity: FreeCapacity, task: TaskInfo, slots: Sequence[int]) -> int:
        """Return the row of the node with the highest score."""
        weights = {
            name: self._weights.get(name, _OTHER_WEIGHT)
            for name, amount in task.resources.items()
            if amount > 0
        }

        def score(row: int) -> float:
            total, free = capacity.nodes[row].total, capacity.free[row]
            return sum(
                weight * (total[name] - free[name] + task.resources[name]) / total[name]
                for name, weight in weights.items()
            )

        # Dividing by the sum of the weights would not change which is the highest.
        return max((row for row, free in enumerate(slots) if free), key=score)
