"""The actor and the critic: two small networks of one hidden layer, and their derivatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OBSERVATIONS = 4
HIDDEN = 32
ACTIONS = 2
ACTOR, CRITIC = "actor", "critic"
OUTPUTS = {ACTOR: ACTIONS, CRITIC: 1}

Floats = NDArray[np.float32]
Weights = dict[str, Floats]


def first_weights(seed: int) -> Weights:
    """Those of the beginning, with which every action is as likely and every value 0."""
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for part, outputs in OUTPUTS.items():
        spread = 1 / np.sqrt(OBSERVATIONS)
        inner = rng.standard_normal((OBSERVATIONS, HIDDEN)) * spread
        weights[f"{part}-in"] = inner.astype(np.float32)
        weights[f"{part}-in-bias"] = np.zeros(HIDDEN, np.float32)
        weights[f"{part}-out"] = np.zeros((HIDDEN, outputs), np.float32)
        weights[f"{part}-out-bias"] = np.zeros(outputs, np.float32)
    return weights


def forward(weights: Weights, part: str, observations: Floats) -> tuple[Floats, Floats]:
    """Hidden layer and outputs, a row for each observation."""
    hidden = np.tanh(observations @ weights[f"{part}-in"] + weights[f"{part}-in-bias"])
    return hidden, hidden @ weights[f"{part}-out"] + weights[f"{part}-out-bias"]


def backward(
    weights: Weights, part: str, observations: Floats, hidden: Floats, slopes: Floats
) -> Weights:
    """The derivatives by the weights of one part, given those by its outputs."""
    inner = slopes @ weights[f"{part}-out"].T * (1 - hidden**2)
    return {
        f"{part}-in": observations.T @ inner,
        f"{part}-in-bias": inner.sum(0),
        f"{part}-out": hidden.T @ slopes,
        f"{part}-out-bias": slopes.sum(0),
    }


def log_chances(outputs: Floats) -> Floats:
    """Of every action, logarithmic, from the actor's outputs."""
    shifted = outputs - outputs.max(-1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found
