"""The containers of a pod that is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api import names

_ZERO: Final = ("0", 0)


def main_container(containers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the container that gets the ports and resources: ``di-container``, or the
    first one.
    """
    named = (c for c in containers if c.get("name") == names.DI_CONTAINER)
    return next(named, containers[0] if containers else None)


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
