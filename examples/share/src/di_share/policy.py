"""A softmax policy and its gradient by REINFORCE, in plain Python; chance is what is given.

The task: of ACTIONS actions one is right in each situation, which a hidden teacher says; the reward
is 1 for it and 0 else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

ACTIONS = 4
FEATURES = 8
RATE = 4.0
"""What the mean gradient is multiplied by in a step."""
BASELINE = 1 / ACTIONS
"""What a reward is compared with: that of a policy that has learned nothing."""
_TEACHER_SEED = 7

Weights = list[float]
"""Of each action those of its features, one after the other."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a learner has made of its part of a batch: sums over its samples."""

    gradient: Weights
    reward: float
    samples: int


def blank() -> Weights:
    """A policy that has learned nothing."""
    return [0.0] * (ACTIONS * FEATURES)


def play(weights: Weights, samples: int, random: Random) -> Part:
    """Act in so many situations, and see what that says about the weights."""
    gradient, total = blank(), 0.0
    for _ in range(samples):
        situation = [random.gauss(0, 1) for _ in range(FEATURES)]
        chances = _chances(weights, situation)
        (action,) = random.choices(range(ACTIONS), chances)
        reward = float(action == _best(_TEACHER, situation))
        total += reward
        for each, chance in enumerate(chances):
            push = ((each == action) - chance) * (reward - BASELINE)
            for at, feature in enumerate(situation, start=each * FEATURES):
                gradient[at] += push * feature
    return Part(gradient, total, samples)


def improved(weights: Weights, parts: Sequence[Part]) -> Weights:
    """The weights after a step on all parts of a batch."""
    samples = sum(part.samples for part in parts)
    sums = map(sum, zip(*(part.gradient for part in parts), strict=True))
    return [weight + RATE * total / samples for weight, total in zip(weights, sums, strict=True)]


def mean_reward(parts: Sequence[Part]) -> float:
    """Of a whole batch, between 0 and 1."""
    return sum(part.reward for part in parts) / sum(part.samples for part in parts)


def share(batch: int, size: int, rank: int) -> int:
    """The samples of one of so many learners; all of theirs together are the batch."""
    return batch // size + (rank < batch % size)


def _chances(weights: Weights, situation: Sequence[float]) -> list[float]:
    scores = _scores(weights, situation)
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    whole = sum(powers)
    return [power / whole for power in powers]


def _best(weights: Weights, situation: Sequence[float]) -> int:
    scores = _scores(weights, situation)
    return scores.index(max(scores))


def _scores(weights: Weights, situation: Sequence[float]) -> list[float]:
    return [
        math.fsum(
            weight * feature
            for weight, feature in zip(
                weights[action * FEATURES : (action + 1) * FEATURES], situation, strict=True
            )
        )
        for action in range(ACTIONS)
    ]


def _teacher() -> Weights:
    random = Random(_TEACHER_SEED)
    return [random.gauss(0, 1) for _ in range(ACTIONS * FEATURES)]


_TEACHER = _teacher()
