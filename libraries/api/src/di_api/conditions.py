"""Access to the conditions of any object, as the API server returns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.field_error import items, mapping


def condition_of(body: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the condition of this type from an object of any shape; empty if there is none."""
    conditions = map(mapping, items(mapping(body.get("status")).get("conditions")))
    return next((each for each in conditions if each.get("type") == kind), {})
