"""Patches of pod templates: JSON merge patch (RFC 7386), with some lists merged by name.

In an object each field is patched, and a null one is removed; any other value replaces the previous
one. The lists of BY_NAME are merged: an item with an existing name is patched, others are appended;
an empty list empties it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BY_NAME: Final = frozenset({"containers", "initContainers", "volumes", "env"})
"""Fields at any depth whose value is a list of objects with different names."""
MAX_SIZE: Final = 16_384
"""Maximum number of characters in all names and strings of a patch; other values count as 8."""
MAX_DEPTH: Final = 32
"""Maximum nesting of objects and lists; a pod template has half as many levels."""
_OTHER: Final = 8


def patched(target: object, patch: object) -> Any:
    """Return the patched value; the arguments are unchanged, and equal parts are shared.

    Recurses as deep as the patch, so call `fault_of_patch` first.
    """
    if not isinstance(patch, Mapping):
        return patch
    before = target if isinstance(target, Mapping) else {}
    result = dict(before)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif key in BY_NAME and value and _is_named(value) and _is_named(before.get(key) or []):
            result[key] = _by_name(before.get(key) or [], value)
        else:
            result[key] = patched(before.get(key), value)
    return result


def fault_of_patch(patch: Mapping[str, Any]) -> str | None:
    """Return why a patch is invalid for any target; None if it is valid. In linear time."""
    size = 0
    pending: list[tuple[object, int]] = [(patch, 1)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, Mapping):
            size += sum(map(len, value))
            pending += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            pending += [(inner, depth + 1) for inner in value]
        else:
            size += len(value) if isinstance(value, str) else _OTHER
            continue
        if depth > MAX_DEPTH:
            return f"may be nested {MAX_DEPTH} levels deep"
        if size + len(pending) > MAX_SIZE:
            return f"may have {MAX_SIZE} characters"
    return f"may have {MAX_SIZE} characters" if size > MAX_SIZE else None


def _is_named(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in value
    )


def _by_name(target: list[Any], patch: list[Any]) -> list[Any]:
    result = list(target)
    where = {each["name"]: index for index, each in reversed([*enumerate(target)])}
    for each in patch:
        index = where.setdefault(each["name"], len(result))
        if index == len(result):
            result.append(patched({}, each))
        else:
            result[index] = patched(result[index], each)
    return result
