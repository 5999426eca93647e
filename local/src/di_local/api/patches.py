"""Patches with the semantics of an API server: RFC 7396 and RFC 6902. Arguments are never
modified.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from di_local.api.refused import invalid


def merged(target: Any, patch: Any) -> Any:
    """Return `target` after a merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def patched(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return `target` after a JSON patch (RFC 6902) of add, replace, remove and test.

    Raises:
        Refused: a path does not exist, a test fails, or the operation is another one.
    """
    result = copy.deepcopy(target)
    for operation in operations:
        result = _applied(result, operation)
    return result


def _applied(root: Any, operation: Mapping[str, Any]) -> Any:
    kind, path = operation.get("op"), str(operation.get("path", ""))
    if not path:
        return copy.deepcopy(operation.get("value")) if kind in ("add", "replace") else root
    *above, last = [_unescaped(part) for part in path.split("/")[1:]]
    parent = root
    try:
        for part in above:
            parent = parent[_key(parent, part)]
        _change(parent, last, kind, operation)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise invalid(f"the patch does not apply at {path}: {error!r}") from error
    return root


def _change(parent: Any, last: str, kind: object, operation: Mapping[str, Any]) -> None:
    key = _key(parent, last)
    value = copy.deepcopy(operation.get("value"))
    match kind:
        case "add" if isinstance(parent, list):
            parent.insert(len(parent) if key == "-" else key, value)
        case "add":
            parent[key] = value
        case "replace":
            parent[key]  # what is replaced has to be there
            parent[key] = value
        case "remove":
            del parent[key]
        case "test":
            if parent[key] != value:
                raise invalid(f"test of {operation.get('path')} does not hold")
        case _:
            raise invalid(f"operation {kind!r} is not known")


def _key(parent: Any, part: str) -> Any:
    return int(part) if isinstance(parent, list) and part != "-" else part


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
