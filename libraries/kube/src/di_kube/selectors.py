"""Label selectors as predicates, for decisions about objects that no list or watch has selected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Selects: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Returns whether an object of the API is selected."""


def read_label_selector(text: str) -> Selects:
    """Return the predicate of a selector that tests labels for equality, inequality or existence;
    "" selects everything.

    Raises:
        ValueError: another form, which no component uses.
    """
    tests = [_read_test(each) for each in text.split(",") if each]
    return lambda obj: all(test(obj) for test in tests)


def _read_test(text: str) -> Selects:
    if "(" in text or ")" in text or text.startswith("!"):
        raise ValueError(f"label selector {text!r} is not supported")
    if "!=" in text:
        key, _, value = text.partition("!=")
        return lambda obj: _labels(obj).get(key) != value
    if "=" in text:
        key, _, value = text.replace("==", "=").partition("=")
        return lambda obj: _labels(obj).get(key) == value
    return lambda obj: text in _labels(obj)


def _labels(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = obj["metadata"].get("labels") or {}
    return labels
