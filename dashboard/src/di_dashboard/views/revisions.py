"""A manifest, and its difference to the previous one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

import yaml

_MOST_LINES: Final = 2000


def as_yaml(manifest: Mapping[str, Any]) -> str:
    """Return a manifest as YAML."""
    return yaml.safe_dump(dict(manifest), sort_keys=True, allow_unicode=True)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the changed lines with context: "added", "removed", "around" or "where"."""
    lines = unified_diff(
        as_yaml(before).splitlines(), as_yaml(after).splitlines(), lineterm="", n=3
    )
    # The first two name files, which do not exist.
    return [(_kind(line), line) for line in [*lines][2 : 2 + _MOST_LINES]]


def _kind(line: str) -> str:
    return {"+": "added", "-": "removed", "@": "where"}.get(line[:1], "around")
