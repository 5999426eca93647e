"""The same transformer as rollout engines have it: numpy alone, and no derivatives.

An engine is another program than a learner, in real jobs too, with an implementation of its own.
This one keeps keys and values of the tokens before, so that a further token costs one token's work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from di_grpo.model.problems import PROMPT, Tokens
from di_grpo.model.weights import EPSILON, HEADS, INPUTS, LAYERS, WIDTH, Floats, Weights

_FUTURE = np.triu(np.full((PROMPT, PROMPT), -1e9, np.float32), 1)


@dataclass(frozen=True, slots=True)
class Samples:
    """What was written after prompts.

    Attributes:
        texts: prompts and answers.
        log_probabilities: of each token of the answers when it was chosen.
    """

    texts: Tokens
    log_probabilities: Floats


class Sampler:
    """Writes answers with the same weights until it is given others."""

    def __init__(self, weights: Weights) -> None:
        self._token = weights["token"]
        self._position = weights["position"]
        self._out = weights["out"]
        self._layers = [_Layer(weights, layer) for layer in range(LAYERS)]

    def sample(self, prompts: Tokens, rng: np.random.Generator) -> Samples:
        """Write one answer to each prompt, each token by its probability."""
        caches = [_Cache(len(prompts)) for _ in self._layers]
        tokens, chosen, told = prompts, [prompts], []
        for at in (0, *range(PROMPT, INPUTS)):
            every = _log_softmax(self._scores(tokens, caches, at))
            # The largest of log-probabilities with Gumbel's noise is a draw by probability.
            choice = (every + rng.gumbel(size=every.shape)).argmax(-1)[:, None]
            told.append(np.take_along_axis(every, choice, -1))
            tokens = choice.astype(np.uint8)
            chosen.append(tokens)
        return Samples(np.concatenate(chosen, 1), np.concatenate(told, 1))

    def _scores(self, tokens: Tokens, caches: list[_Cache], at: int) -> Floats:
        """Of what comes after the tokens, which come after `at` others that the caches know."""
        count, width = tokens.shape
        state = (self._token[tokens] + self._position[at : at + width]).reshape(-1, WIDTH)
        for layer, cache in zip(self._layers, caches, strict=True):
            state = layer.apply(state, cache, count, at)
        last = state.reshape(count, width, WIDTH)[:, -1]
        scores: Floats = _normalized(last) @ self._out
        return scores


class _Cache:
    """Keys and values of one layer, as far as they are known."""

    def __init__(self, count: int) -> None:
        shape = (count, HEADS, INPUTS, WIDTH // HEADS)
        self.keys, self.values = np.empty(shape, np.float32), np.empty(shape, np.float32)


class _Layer:
    def __init__(self, weights: Weights, layer: int) -> None:
        scaled = weights[f"query{layer}"] * np.float32((WIDTH // HEADS) ** -0.5)
        self._three = np.hstack([scaled, weights[f"key{layer}"], weights[f"value{layer}"]])
        self._merge, self._up = weights[f"merge{layer}"], weights[f"up{layer}"]
        self._down = weights[f"down{layer}"]

    def apply(self, state: Floats, cache: _Cache, count: int, at: int) -> Floats:
        three = (_normalized(state) @ self._three).reshape(count, -1, 3, HEADS, WIDTH // HEADS)
        query, key, value = three.transpose(2, 0, 3, 1, 4)
        until = at + query.shape[2]
        cache.keys[:, :, at:until], cache.values[:, :, at:until] = key, value
        scores = query @ cache.keys[:, :, :until].swapaxes(-1, -2)
        if not at:
            scores = scores + _FUTURE
        seen = np.exp(_log_softmax(scores)) @ cache.values[:, :, :until]
        state = state + seen.transpose(0, 2, 1, 3).reshape(-1, WIDTH) @ self._merge
        hidden = _normalized(state) @ self._up
        after: Floats = state + np.maximum(hidden, 0) @ self._down
        return after


def _normalized(state: Floats) -> Floats:
    centred = state - state.mean(-1, keepdims=True)
    deviation: Floats = np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
    scaled: Floats = centred / deviation
    return scaled


def _log_softmax(scores: Floats) -> Floats:
    scores = scores - scores.max(-1, keepdims=True)
    every: Floats = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    return every
