"""Selectors of lists and watches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from di_kube.selectors import Selects, read_label_selector
from di_local.api.refused import Refused

Selector: TypeAlias = Selects


def selector(namespace: str | None, labels: str, fields: str) -> Selector:
    """Return a predicate for objects; empty texts and no namespace select all.

    Labels are tested for equality, inequality or existence; fields for equality.

    Raises:
        Refused: another form, which no component here uses.
    """
    try:
        tests = [read_label_selector(labels)]
    except ValueError as error:
        raise Refused(400, "BadRequest", f"{error} here") from error
    tests += [_field(each) for each in fields.split(",") if each]
    if namespace is not None:
        tests.append(lambda obj: obj["metadata"].get("namespace") == namespace)
    return lambda obj: all(test(obj) for test in tests)


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
