"""The shares of one batch: who computes which part of the gradient, and what becomes of one that is
late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from di_grpo.model.problems import Tokens
from di_grpo.model.weights import Floats, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Samples that one process computes the gradient of.

    Attributes:
        index: which share of the batch.
        version: of the weights that the gradient is of.
        texts, advantages, log_probabilities: a row for each sample.
    """

    index: int
    version: int
    texts: Tokens
    advantages: Floats
    log_probabilities: Floats

    def arrays(self) -> dict[str, Any]:
        """As it travels."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Self:
        """What has travelled.

        Raises:
            KeyError, TypeError: it is no share.
        """
        found = {each.name: arrays[each.name] for each in fields(cls)}
        return cls(**{**found, "index": int(found["index"]), "version": int(found["version"])})


def split(share: Share, count: int) -> list[Share]:
    """A batch in so many parts, as equal as can be; none of them is empty."""
    parts = np.array_split(np.arange(len(share.texts)), min(count, len(share.texts)))
    return [
        Share(
            index=index,
            version=share.version,
            texts=share.texts[part],
            advantages=share.advantages[part],
            log_probabilities=share.log_probabilities[part],
        )
        for index, part in enumerate(parts)
    ]


class Shares:
    """The shares of one step. Whoever is free takes one; who is late has lost it to the next one.

    Args:
        lease: seconds that whoever has taken a share has for it.
    """

    def __init__(self, shares: Sequence[Share], *, lease: float) -> None:
        self._shares = {share.index: share for share in shares}
        self._until = dict.fromkeys(self._shares, 0.0)
        self._lease = lease
        self._gradients: dict[int, Weights] = {}

    def take(self, now: float) -> Share | None:
        """One that nobody computes, or somebody for too long; None if there is none."""
        for index, until in self._until.items():
            if until <= now:
                self._until[index] = now + self._lease
                return self._shares[index]
        return None

    def give(self, version: int, index: int, gradient: Weights) -> bool:
        """Enter a gradient; False for one of another step, or that somebody else has given."""
        if index not in self._until or version != self._shares[index].version:
            return False
        del self._until[index]
        self._gradients[index] = gradient
        return True

    @property
    def next_late(self) -> float | None:
        """When the first of those that are missing is late; None if none is missing."""
        return min(self._until.values(), default=None)

    def mean(self) -> Weights:
        """The gradient of the whole batch, of which each share is worth its number of samples."""
        sizes = {index: len(share.texts) for index, share in self._shares.items()}
        total = np.float32(sum(sizes.values()))
        first, *_ = self._gradients.values()
        return {
            name: sum(
                (sizes[i] / total * part[name] for i, part in self._gradients.items()),
                start=np.zeros_like(zero),
            )
            for name, zero in first.items()
        }
