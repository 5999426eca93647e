"""The policy network, and how it learns from episodes.

REINFORCE (Williams, "Simple Statistical Gradient-Following Algorithms for Connectionist
Reinforcement Learning", 1992) with a baseline that depends on the time step alone, and Adam
(Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OBSERVATIONS = 4
HIDDEN = 32
ACTIONS = 2
_SPLITS = np.cumsum([OBSERVATIONS * HIDDEN, HIDDEN, HIDDEN * ACTIONS])
SIZE = int(_SPLITS[-1]) + ACTIONS
"""Number of weights of the network."""
DISCOUNT = 0.99
STEP = 0.005
"""Adam's step size."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One played episode; every step of CartPole has reward 1, so its length is its return."""

    observations: Floats
    actions: NDArray[np.int64]

    @property
    def total_reward(self) -> float:
        return float(len(self.actions))


def initial_weights(seed: int) -> Floats:
    """Small random weights: all actions are about equally likely."""
    return np.random.default_rng(seed).standard_normal(SIZE) * 0.1


def probabilities(weights: Floats, observations: Floats) -> Floats:
    """How likely each action is; a row for each observation."""
    _, result = _forward(weights, observations)
    return result


def _forward(weights: Floats, observations: Floats) -> tuple[Floats, Floats]:
    first, first_bias, second, second_bias = np.split(weights, _SPLITS)
    hidden = np.tanh(observations @ first.reshape(OBSERVATIONS, HIDDEN) + first_bias)
    logits = hidden @ second.reshape(HIDDEN, ACTIONS) + second_bias
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return hidden, odds / odds.sum(axis=-1, keepdims=True)


class Learner:
    """The weights and the rule that improves them."""

    def __init__(self, *, seed: int) -> None:
        self.weights = initial_weights(seed)
        self._mean = np.zeros(SIZE)
        self._square = np.zeros(SIZE)
        self._moves = 0

    def improve(self, episodes: Sequence[Episode]) -> None:
        """Move the weights one step towards the actions that were followed by more reward."""
        gradient = self._gradient(episodes)
        self._moves += 1
        self._mean = 0.9 * self._mean + 0.1 * gradient
        self._square = 0.999 * self._square + 0.001 * gradient**2
        mean = self._mean / (1 - 0.9**self._moves)
        square = self._square / (1 - 0.999**self._moves)
        self.weights = self.weights + STEP * mean / (np.sqrt(square) + 1e-8)

    def _gradient(self, episodes: Sequence[Episode]) -> Floats:
        observations = np.concatenate([episode.observations for episode in episodes])
        actions = np.concatenate([episode.actions for episode in episodes])
        hidden, chances = _forward(self.weights, observations)
        # The derivative of the chosen action's log-probability by the logits.
        surprise = np.eye(ACTIONS)[actions] - chances
        pull = surprise * advantages([len(e.actions) for e in episodes])[:, None] / len(actions)
        second = self.weights[_SPLITS[1] : _SPLITS[2]].reshape(HIDDEN, ACTIONS)
        inner = (pull @ second.T) * (1 - hidden**2)
        return np.concatenate(
            [
                (observations.T @ inner).ravel(),
                inner.sum(axis=0),
                (hidden.T @ pull).ravel(),
                pull.sum(axis=0),
            ]
        )


def advantages(lengths: Sequence[int]) -> Floats:
    """How much better each step's future was than usual at that time, in standard deviations.

    Args:
        lengths: of the episodes; the result has their steps one after another.
    """
    longest = max(lengths)
    # The discounted sum of n rewards of 1.
    future = (1 - DISCOUNT ** np.arange(longest + 1)) / (1 - DISCOUNT)
    ahead = np.full((len(lengths), longest), np.nan)
    for row, length in zip(ahead, lengths, strict=True):
        row[:length] = future[length:0:-1]
    better = ahead - np.nanmean(ahead, axis=0)
    spread = float(np.nanstd(better))
    flat: Floats = better[~np.isnan(better)]
    return flat / spread if spread > 0 else flat
