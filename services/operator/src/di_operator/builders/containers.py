"""The containers of a pod that is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from di_api import names


def main_container(containers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The container that ports and resources are meant for: ``di-container``, or the first."""
    named = (c for c in containers if c.get("name") == names.DI_CONTAINER)
    return next(named, containers[0] if containers else None)
