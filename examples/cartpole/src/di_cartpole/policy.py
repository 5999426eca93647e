"""The policy network and its search: a small tanh network, improved by evolution strategies.

The update is the antithetic estimator with centred ranks of Salimans et al., "Evolution Strategies
as a Scalable Alternative to Reinforcement Learning" (2017), section 2, with momentum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OBSERVATIONS = 4
HIDDEN = 16
ACTIONS = 2
SIZE = OBSERVATIONS * HIDDEN + HIDDEN + HIDDEN * ACTIONS + ACTIONS
"""Number of weights of the network."""

Weights = NDArray[np.float64]


def act(weights: Weights, observation: Weights) -> int:
    """The action of the network with these weights: the larger of its two outputs."""
    first = weights[: OBSERVATIONS * HIDDEN].reshape(OBSERVATIONS, HIDDEN)
    rest = weights[OBSERVATIONS * HIDDEN :]
    hidden = np.tanh(observation @ first + rest[:HIDDEN])
    second = rest[HIDDEN : HIDDEN + HIDDEN * ACTIONS].reshape(HIDDEN, ACTIONS)
    return int(np.argmax(hidden @ second + rest[-ACTIONS:]))


def perturbation(seed: int) -> Weights:
    """The direction that a seed stands for; both sides compute it, so that only seeds travel."""
    return np.random.default_rng(seed).standard_normal(SIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How the search moves: `sigma` spread of the trials, `step` length of a move, `momentum`."""

    sigma: float = 0.3
    step: float = 0.1
    momentum: float = 0.7


class Search:
    """The current weights, how fast they move, and the rule that improves them from the returns of
    trials."""

    def __init__(self, *, settings: SearchSettings, seed: int) -> None:
        self.settings = settings
        self.velocity = np.zeros(SIZE)
        self.weights: Weights = np.random.default_rng(seed).standard_normal(SIZE) * 0.1

    def improve(self, returns: dict[int, tuple[float, float]]) -> None:
        """Move the weights by the returns of one generation.

        Args:
            returns: for each seed the return with the direction added and with it subtracted.
        """
        seeds = sorted(returns)
        shaped = _centred_ranks(np.array([returns[seed] for seed in seeds]))
        gradient = np.zeros(SIZE)
        for seed, (plus, minus) in zip(seeds, shaped, strict=True):
            gradient += (plus - minus) * perturbation(seed)
        gradient /= 2 * len(seeds) * self.settings.sigma
        self.velocity = self.settings.momentum * self.velocity + self.settings.step * gradient
        self.weights = self.weights + self.velocity


def _centred_ranks(values: Weights) -> Weights:
    """Ranks scaled to [-0.5, 0.5]; equal returns get equal ranks, so a plateau gives no push."""
    flat = values.ravel()
    below = (flat[:, None] > flat[None, :]).sum(axis=1)
    above = (flat[:, None] < flat[None, :]).sum(axis=1)
    ranks: Weights = (below - above) / (2 * max(flat.size - 1, 1))
    return ranks.reshape(values.shape)
