"""One step of the learner: what a batch of unrolls teaches actor and critic."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from di_impala.network import (
    ACTIONS,
    ACTOR,
    CRITIC,
    OBSERVATIONS,
    Floats,
    Weights,
    backward,
    forward,
    log_chances,
)
from di_impala.unrolls import Batch
from di_impala.vtrace import Targets, targets

DISCOUNT = 0.99
REWARD = 1 - DISCOUNT
"""What a reward counts: the return of one that never ends is 1."""
CURIOSITY = 0.01
"""What the entropy of the actor counts."""


def aims(weights: Weights, batch: Batch) -> Targets:
    """What these weights should be drawn to."""
    values = forward(weights, CRITIC, batch.observations)[1][..., 0]
    chances = log_chances(forward(weights, ACTOR, batch.observations[:-1])[1])
    found = targets(
        ratios=np.exp(_of(batch, chances) - batch.log_chances),
        rewards=batch.rewards * np.float32(REWARD),
        discounts=batch.goes_on * np.float32(DISCOUNT),
        values=values,
    )
    # However large the returns are by now, an action pushes as much.
    spread = found.advantages.std() + np.float32(1e-6)
    return Targets(found.values, found.advantages / spread)


def gradient(weights: Weights, batch: Batch, aimed: Targets) -> Weights:
    """The derivatives of `loss`, by name of the weights."""
    observations = batch.observations[:-1].reshape(-1, OBSERVATIONS)
    count = np.float32(len(observations))
    hidden, outputs = forward(weights, ACTOR, observations)
    logs = log_chances(outputs)
    chances = np.exp(logs)
    pushed = np.eye(ACTIONS, dtype=np.float32)[batch.actions.ravel()] - chances
    entropy = -(chances * logs).sum(-1, keepdims=True)
    slopes = -pushed * aimed.advantages.reshape(-1, 1)
    slopes += np.float32(CURIOSITY) * chances * (logs + entropy)
    found = backward(weights, ACTOR, observations, hidden, slopes / count)
    hidden, values = forward(weights, CRITIC, observations)
    errors = (values - aimed.values.reshape(-1, 1)) / count
    return found | backward(weights, CRITIC, observations, hidden, errors)


def loss(weights: Weights, batch: Batch, aimed: Targets) -> float:
    """What is made smaller, given what to aim at."""
    observations = batch.observations[:-1]
    logs = log_chances(forward(weights, ACTOR, observations)[1])
    errors = forward(weights, CRITIC, observations)[1][..., 0] - aimed.values
    entropy = -(np.exp(logs) * logs).sum(-1)
    steps = -_of(batch, logs) * aimed.advantages - CURIOSITY * entropy + errors**2 / 2
    return float(steps.mean())


def _of(batch: Batch, logs: Floats) -> Floats:
    """Of the actions that were taken."""
    found: Floats = np.take_along_axis(logs, batch.actions[..., None].astype(int), -1)[..., 0]
    return found


@dataclass(slots=True)
class Adam:
    """Kingma and Ba, "Adam" (2015), algorithm 1."""

    rate: float
    steps: int = 0
    first: Weights = field(default_factory=dict)
    second: Weights = field(default_factory=dict)

    def step(self, weights: Weights, slopes: Weights) -> Weights:
        """The weights after one step down."""
        self.steps += 1
        after: Weights = {}
        for name, slope in slopes.items():
            first = 0.9 * self.first.get(name, np.float32(0)) + 0.1 * slope
            second = 0.999 * self.second.get(name, np.float32(0)) + 0.001 * slope**2
            self.first[name], self.second[name] = first, second
            mean = first / (1 - 0.9**self.steps)
            spread = np.sqrt(second / (1 - 0.999**self.steps)) + 1e-8
            after[name] = (weights[name] - self.rate * mean / spread).astype(np.float32)
        return after
