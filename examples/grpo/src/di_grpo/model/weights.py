"""What the model is made of, for every implementation of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from di_grpo.model.problems import ALPHABET, LENGTH

LAYERS = 2
WIDTH = 64
HEADS = 4
INPUTS = LENGTH - 1
"""Tokens that something is predicted from: after the last one comes nothing."""
EPSILON = np.float32(1e-5)
"""Added to variances that are divided by."""

Floats = NDArray[np.float32]
Weights = dict[str, Floats]
"""By name; the names of a layer end with its number."""


def initial_weights(rng: np.random.Generator) -> Weights:
    """Random ones, about 100 thousand."""

    def normal(*shape: int) -> Floats:
        return (0.08 * rng.standard_normal(shape)).astype(np.float32)

    weights = {
        "token": normal(len(ALPHABET), WIDTH),
        "position": normal(INPUTS, WIDTH),
        "out": normal(WIDTH, len(ALPHABET)),
    }
    for layer in range(LAYERS):
        for name in ("query", "key", "value", "merge"):
            weights[f"{name}{layer}"] = normal(WIDTH, WIDTH)
        weights[f"up{layer}"] = normal(WIDTH, 4 * WIDTH)
        weights[f"down{layer}"] = normal(4 * WIDTH, WIDTH)
    return weights
