"""Goodput curves by size, cached from one decision to the next."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from di_operator.allocator.goodput.model import goodput
from di_operator.allocator.goodput.params import GoodputModel
from di_operator.allocator.goodput.sizes import nodes_of

Curve = tuple[float, ...]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The sizes for which a model's goodput is requested, with so many replicas per node."""

    model: GoodputModel
    sizes: tuple[int, ...]
    """Rising, 0 first."""
    per_node: int


class Curves:
    """Cache that computes only the curves that were not requested last time.

    All of it follows from the arguments: losing it in a restart costs time and changes no
    decision.
    """

    def __init__(self) -> None:
        self._known: dict[Question, Curve] = {}

    def ask(self, questions: Mapping[Key, Question]) -> dict[Key, Curve]:
        """Return each question's goodput by size, in samples per second; 0 for size 0."""
        known: dict[Question, Curve] = {}
        answers: dict[Key, Curve] = {}
        for key, question in questions.items():
            curve = known.get(question) or self._known.get(question) or _compute(question)
            known[question] = answers[key] = curve
        self._known = known
        return answers


def _compute(question: Question) -> Curve:
    return (
        0.0,
        *(
            goodput(question.model, nodes_of(size, question.per_node), size)
            for size in question.sizes[1:]
        ),
    )
