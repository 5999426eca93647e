"""The containers of a pod that is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
