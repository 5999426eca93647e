"""What collectors bring: a stretch of one collector's time, and the queue of such."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from di_impala.network import ACTIONS, OBSERVATIONS, Floats

STEPS = 32
"""Of an unroll."""
MOST_UNROLLS = 64
"""So many wait for the learner; the oldest is dropped for the next."""

Actions = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unroll:
    """What a collector saw and did in `STEPS` steps, across the ends of episodes.

    Attributes:
        version: of the weights that it acted by.
        observations: one more than steps: what it saw after the last one too.
        goes_on: 0 where a step ended an episode, 1 elsewhere.
        log_chances: how likely each action was when it was chosen, logarithmic.
        returns: of the episodes that ended.
    """

    version: int
    observations: Floats
    actions: Actions
    rewards: Floats
    goes_on: Floats
    log_chances: Floats
    returns: Floats

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Self:
        """What has travelled.

        Raises:
            KeyError, ValueError: it is no unroll.
        """
        actions = np.asarray(arrays["actions"], np.uint8)
        if actions.shape != (STEPS,) or actions.max() >= ACTIONS:
            raise ValueError(f"actions: must be {STEPS} numbers below {ACTIONS}")
        returns = np.asarray(arrays["returns"], np.float32)
        if returns.ndim != 1 or len(returns) > STEPS:
            raise ValueError(f"returns: must be {STEPS} at most")
        return cls(
            version=int(arrays["version"]),
            observations=_finite(arrays, "observations", (STEPS + 1, OBSERVATIONS)),
            actions=actions,
            rewards=_finite(arrays, "rewards", (STEPS,)),
            goes_on=_finite(arrays, "goes_on", (STEPS,)),
            log_chances=_finite(arrays, "log_chances", (STEPS,)),
            returns=_finite(arrays, "returns", returns.shape),
        )


def _finite(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    found = np.asarray(arrays[name], np.float32)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"{name}: must be finite numbers of shape {shape}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Unrolls side by side: the first axis is time, the second has one of each."""

    observations: Floats
    actions: Actions
    rewards: Floats
    goes_on: Floats
    log_chances: Floats

    @classmethod
    def of(cls, unrolls: Sequence[Unroll]) -> Self:
        return cls(
            observations=np.stack([unroll.observations for unroll in unrolls], 1),
            actions=np.stack([unroll.actions for unroll in unrolls], 1),
            rewards=np.stack([unroll.rewards for unroll in unrolls], 1),
            goes_on=np.stack([unroll.goes_on for unroll in unrolls], 1),
            log_chances=np.stack([unroll.log_chances for unroll in unrolls], 1),
        )


class Queue:
    """Unrolls in the order in which they came."""

    def __init__(self) -> None:
        self._unrolls: deque[Unroll] = deque()
        self._dropped = 0

    def add(self, unroll: Unroll) -> None:
        self._unrolls.append(unroll)
        if len(self._unrolls) > MOST_UNROLLS:
            self._unrolls.popleft()
            self._dropped += 1

    def take(self, count: int) -> list[Unroll]:
        """The oldest so many; none as long as there are fewer."""
        if len(self._unrolls) < count:
            return []
        return [self._unrolls.popleft() for _ in range(count)]

    def dropped(self) -> int:
        """How many were dropped since the last time this was asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped
