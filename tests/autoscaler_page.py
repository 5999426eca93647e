"""The manifests of docs/how-to/teams-autoscalers.md, for the tests that apply them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

Object = dict[str, Any]
_PAGE: Final = Path(__file__).parents[1] / "docs/how-to/teams-autoscalers.md"


def manifests(kind: str) -> dict[str, Object]:
    """Those of a kind in the page, by name."""
    return {body["metadata"]["name"]: body for body in examples() if body.get("kind") == kind}


def examples() -> list[Object]:
    """All that the page has in YAML, also what is a part of a manifest."""
    blocks = re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    return [yaml.safe_load(block) for block in blocks]
