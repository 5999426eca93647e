"""The status that the operator writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the RFC 7386 patch that turns the operator's part of ``old`` into ``new``.

    Both are values of ``job["status"]``. Fields of other writers (``profilings``) never appear in
    it; a field of ours that is gone becomes null.
    """
    raise NotImplementedError
