"""JSON patches that add annotations to an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.field_error import mapping


def annotation_patch(obj: Mapping[str, Any], wanted: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the RFC 6902 operations that add the wanted annotations; empty if the object already
    has them.
    """
    present = mapping(mapping(obj.get("metadata")).get("annotations"))
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": f"/metadata/annotations/{key.replace('/', '~1')}", "value": value}
        for key, value in wanted.items()
        if present.get(key) != value
    ]
    if operations and not present:
        operations.insert(0, {"op": "add", "path": "/metadata/annotations", "value": {}})
    return operations
