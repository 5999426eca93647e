"""Adam, with gradients that are too long cut short.

Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from di_grpo.model.weights import Floats, Weights

FIRST, SECOND = 0.9, 0.999
LONGEST = 1.0
"""A gradient is scaled down to this length."""


@dataclass(slots=True)
class Adam:
    """Both running means of the gradients, and how many there were."""

    rate: float
    steps: int = 0
    first: Weights = field(default_factory=dict)
    second: Weights = field(default_factory=dict)

    def step(self, weights: Mapping[str, Floats], gradient: Mapping[str, Floats]) -> Weights:
        """The weights after one step down the gradient."""
        self.steps += 1
        length = float(np.sqrt(sum(float((part * part).sum()) for part in gradient.values())))
        cut = np.float32(min(1.0, LONGEST / (length + 1e-9)))
        rate = self.rate * (1 - SECOND**self.steps) ** 0.5 / (1 - FIRST**self.steps)
        after = {}
        for name, held in weights.items():
            part = gradient[name] * cut
            zero = np.zeros_like(held)
            self.first[name] = _mixed(self.first.get(name, zero), part, FIRST)
            self.second[name] = _mixed(self.second.get(name, zero), part * part, SECOND)
            move = self.first[name] / (np.sqrt(self.second[name]) + 1e-8)
            after[name] = (held - rate * move).astype(np.float32)
        return after


def _mixed(held: Floats, new: Floats, kept: float) -> Floats:
    return np.float32(kept) * held + np.float32(1 - kept) * new
