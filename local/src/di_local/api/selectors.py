"""Selectors of lists and watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from di_local.api.refused import Refused

Selector: TypeAlias = Callable[[Mapping[str, Any]], bool]


def selector(namespace: str | None, labels: str, fields: str) -> Selector:
    """Return a predicate for objects; empty texts and no namespace select all.

    Labels are tested for equality, inequality or existence; fields for equality.

    Raises:
        Refused: another form, which no component here uses.
    """
    tests = [_label(each) for each in labels.split(",") if each]
    tests += [_field(each) for each in fields.split(",") if each]
    if namespace is not None:
        tests.append(lambda obj: obj["metadata"].get("namespace") == namespace)
    return lambda obj: all(test(obj) for test in tests)


def _label(text: str) -> Selector:
    if "(" in text or ")" in text:
        raise Refused(400, "BadRequest", f"label selector {text!r} is not understood here")
    if "!=" in text:
        key, _, value = text.partition("!=")
        return lambda obj: _labels(obj).get(key) != value
    if "=" in text:
        key, _, value = text.replace("==", "=").partition("=")
        return lambda obj: _labels(obj).get(key) == value
    return lambda obj: text in _labels(obj)


def _field(text: str) -> Selector:
    path, sign, value = text.replace("==", "=").partition("=")
    if not sign or path.endswith("!"):
        raise Refused(400, "BadRequest", f"field selector {text!r} is not understood here")
    parts = path.split(".")

    def test(obj: Mapping[str, Any]) -> bool:
        found: Any = obj
        for part in parts:
            found = found.get(part) if isinstance(found, Mapping) else None
        return (found or "") == value

    return test


def _labels(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    labels: Mapping[str, Any] = obj["metadata"].get("labels") or {}
    return labels
