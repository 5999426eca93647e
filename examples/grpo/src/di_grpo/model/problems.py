"""Additions of two numbers below a hundred, as texts, and which of them nobody ever trains on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ALPHABET = "0123456789+=."
PROMPT = len("12+34=")
ANSWER = len("046.")
LENGTH = PROMPT + ANSWER
"""Tokens of a text: a prompt and its answer."""
HELD_OUT = 1000
"""So many of the ten thousand problems are for evaluation alone."""

TRAINING = 100 * 100 - HELD_OUT
"""So many of them may be trained on."""

Tokens = NDArray[np.uint8]
"""Texts as places in the alphabet, one a row."""
Problems = NDArray[np.int64]
"""Problems by number: that of 12+34 is 1234."""

_ORDER = np.random.default_rng(0).permutation(100 * 100)


def training_problems(rng: np.random.Generator, count: int) -> Problems:
    """Draw from those that may be trained on."""
    return rng.choice(_ORDER[HELD_OUT:], size=count)


def nth_training_problems(places: Sequence[int]) -> Problems:
    """Return those at some places, of TRAINING, among the ones that may be trained on."""
    return _ORDER[HELD_OUT:][list(places)]


def held_out_problems(count: int) -> Problems:
    """The first so many of those that are never trained on; always the same."""
    return _ORDER[:HELD_OUT][:count]


def prompts(problems: Problems) -> Tokens:
    return encode([f"{n // 100:02d}+{n % 100:02d}=" for n in problems.tolist()])


def answers(problems: Problems) -> Tokens:
    """The right ones."""
    return encode([f"{n // 100 + n % 100:03d}." for n in problems.tolist()])


def encode(texts: Sequence[str]) -> Tokens:
    """
    Raises:
        ValueError: a character is not in the alphabet, or the texts are not of one length.
    """
    return np.array([[ALPHABET.index(c) for c in text] for text in texts], dtype=np.uint8)


def decode(tokens: Tokens) -> list[str]:
    return ["".join(ALPHABET[token] for token in row) for row in tokens.tolist()]
