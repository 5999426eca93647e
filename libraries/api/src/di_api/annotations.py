"""Annotations as operations on the object that is to have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.field_error import mapping


def annotation_patch(obj: Mapping[str, Any], wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    """The operations (RFC 6902) that give an object annotations beside its own; those that it has
    already cost none."""
    present = mapping(mapping(obj.get("metadata")).get("annotations"))
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value}
        for key, value in wanted.items()
        if present.get(key) != value
    ]
    if operations and not present:
        operations.insert(0, {"op": "add", "path": "/metadata/annotations", "value": {}})
    return operations
