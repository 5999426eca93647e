"""The containers and volumes of a pod that is built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from di_operator.builders.nodes import Source

Object = Mapping[str, Any]
_ZERO: Final = ("0", 0)


def with_amounts(resources: Mapping[str, Any], amounts: Mapping[str, str | int]) -> dict[str, Any]:
    """Return a container's resources with the given amounts as requests and limits."""
    asked = {name: amount for name, amount in amounts.items() if amount not in _ZERO}
    if not asked:
        return dict(resources)
    return {
        **resources,
        "requests": {**(resources.get("requests") or {}), **asked},
        "limits": {**(resources.get("limits") or {}), **asked},
    }


def with_environment(
    container: Object, env: Mapping[str, str | Source], mounts: Iterable[Object]
) -> dict[str, Any]:
    """Return a container with the variables and mounts that it does not define itself.

    A variable has a value, or a source.
    """
    given = container.get("env") or ()
    theirs = {variable.get("name") for variable in given}
    # Ours come first, because $(DI_RANK) in a value can refer only to earlier variables.
    ours = [
        {"name": name, "value" if isinstance(value, str) else "valueFrom": value}
        for name, value in env.items()
        if name not in theirs
    ]
    result: dict[str, Any] = {**container, "env": [*ours, *given]}
    present = container.get("volumeMounts") or ()
    if merged := _merge(present, mounts, key="mountPath"):
        result["volumeMounts"] = merged
    return result


def with_volumes(theirs: Iterable[Object], ours: Iterable[Object]) -> list[Object]:
    """Return a pod's volumes with those of ours that it does not define."""
    return _merge(theirs, ours, key="name")


def _merge(theirs: Iterable[Object], ours: Iterable[Object], *, key: str) -> list[Object]:
    """Return the user's entries, then those of ours whose key the user does not define."""
    kept = list(theirs)
    taken = {entry.get(key) for entry in kept}
    return [*kept, *(entry for entry in ours if entry.get(key) not in taken)]
