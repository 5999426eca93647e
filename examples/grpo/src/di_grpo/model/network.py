"""The transformer as learners have it: log-probabilities that can be differentiated.

All that multiplies weights is a matrix product of two dimensions: the derivative of one with more
would hold a matrix for each text.
"""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.tracer import getval

from di_grpo.model.problems import ALPHABET, PROMPT, Tokens
from di_grpo.model.weights import EPSILON, HEADS, INPUTS, LAYERS, WIDTH, Floats, Weights

ANSWERED: Floats = (np.arange(INPUTS) >= PROMPT - 1).astype(np.float32)
"""1 where the next token is one of the answer."""
_FUTURE = np.where(np.tril(np.ones((INPUTS, INPUTS), bool)), 0, -1e9).astype(np.float32)


def log_probabilities(weights: Weights, texts: Tokens) -> Any:
    """Of each token of the texts but the first, given those before it: a row of INPUTS a text.

    An array, or what autograd traces in place of one.
    """
    count = len(texts)
    tokens = _one_hot(texts[:, :-1]) @ weights["token"]
    state = anp.reshape(tokens, (count, INPUTS, WIDTH)) + weights["position"]
    state = anp.reshape(state, (count * INPUTS, WIDTH))
    for layer in range(LAYERS):
        state = state + _attention(weights, layer, _normalized(state), count)
        hidden = _normalized(state) @ weights[f"up{layer}"]
        state = state + (hidden * (hidden > 0)) @ weights[f"down{layer}"]
    scores = _shifted(_normalized(state) @ weights["out"])
    every = scores - anp.log(anp.sum(anp.exp(scores), -1, keepdims=True))
    return anp.reshape(anp.sum(every * _one_hot(texts[:, 1:]), -1), (count, INPUTS))


def _attention(weights: Weights, layer: int, state: Any, count: int) -> Any:
    def heads(name: str) -> Any:
        parts = anp.reshape(state @ weights[f"{name}{layer}"], (count, INPUTS, HEADS, -1))
        return anp.transpose(parts, (0, 2, 1, 3))

    scores = heads("query") @ anp.swapaxes(heads("key"), -1, -2)
    attended = anp.exp(_shifted(scores * np.float32((WIDTH // HEADS) ** -0.5) + _FUTURE))
    attended = attended / anp.sum(attended, -1, keepdims=True)
    seen = anp.transpose(attended @ heads("value"), (0, 2, 1, 3))
    return anp.reshape(seen, (count * INPUTS, WIDTH)) @ weights[f"merge{layer}"]


def _normalized(state: Any) -> Any:
    centred = state - anp.mean(state, -1, keepdims=True)
    return centred / anp.sqrt(anp.mean(centred * centred, -1, keepdims=True) + EPSILON)


def _shifted(scores: Any) -> Any:
    """Scores whose largest is zero: exponentials in the same proportion, none of them infinite."""
    return scores - np.max(getval(scores), -1, keepdims=True)


def _one_hot(tokens: Tokens) -> Floats:
    return np.eye(len(ALPHABET), dtype=np.float32)[tokens.ravel()]
