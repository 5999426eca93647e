"""Samples that rollout engines bring, which age while the learner trains."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from di_grpo.model.problems import ALPHABET, ANSWER, LENGTH, Tokens
from di_grpo.model.weights import Floats

GROUP = 8
"""Answers to one prompt, which follow each other in a batch."""
OLDEST = 4
"""A batch of weights that are more versions behind teaches nothing any more."""
MOST_BATCHES = 64
"""So many are kept; what is beyond would have been stale before its turn."""
MOST_TEXTS = 1024
"""Of one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What an engine brings at a time.

    Attributes:
        version: of the weights that it was sampled with.
        texts, rewards, log_probabilities: a row for each sample.
    """

    version: int
    texts: Tokens
    rewards: Floats
    log_probabilities: Floats

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Self:
        """What has travelled.

        Raises:
            KeyError, ValueError: it is no batch.
        """
        texts = np.asarray(arrays["texts"], np.uint8)
        count = len(texts)
        if not 0 < count <= MOST_TEXTS or count % GROUP or texts.shape != (count, LENGTH):
            raise ValueError(
                f"texts: must be up to {MOST_TEXTS} rows of {LENGTH}, in groups of {GROUP}"
            )
        if texts.max() >= len(ALPHABET):
            raise ValueError("texts: has what is no token")
        return cls(
            version=int(arrays["version"]),
            texts=texts,
            rewards=_finite(arrays, "rewards", (count,)),
            log_probabilities=_finite(arrays, "log_probabilities", (count, ANSWER)),
        )


def _finite(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    found = np.asarray(arrays[name], np.float32)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"{name}: must be finite numbers of shape {shape}")
    return found


class Buffer:
    """Batches that wait for the learner, the newest last."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        self._dropped = 0

    def add(self, batch: Batch, *, version: int) -> None:
        """Keep one for when the weights are those of `version` or later.

        One of later weights is of a training that was lost, and is dropped.
        """
        if batch.version > version:
            self._dropped += 1
            return
        self._batches.append(batch)
        if len(self._batches) > MOST_BATCHES:
            self._batches.popleft()
            self._dropped += 1

    def take(self, count: int, *, version: int) -> list[Batch]:
        """The newest so many; none as long as there are fewer. What is stale by now is dropped."""
        fresh = [batch for batch in self._batches if version - batch.version <= OLDEST]
        self._dropped += len(self._batches) - len(fresh)
        taken = fresh[-count:] if len(fresh) >= count else []
        self._batches = deque(fresh[: len(fresh) - len(taken)])
        return taken

    def dropped(self) -> int:
        """How many were dropped since the last time this was asked."""
        dropped, self._dropped = self._dropped, 0
        return dropped
