"""Manifests of pages of docs/, as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.integration.kueue.kinds import Object

_DOCS = Path(__file__).resolve().parents[3] / "docs"


def read_page(name: str) -> str:
    """The text of a page, by its path below docs/."""
    return (_DOCS / name).read_text()


def manifests(text: str, marker: str) -> list[Object]:
    """Those of all blocks of a page's text that a comment says are applied by `marker`: the file of
    a test, and the part of it after a colon where there are several."""
    blocks = re.findall(
        rf"<!-- applied by \S+/{re.escape(marker)} -->\n```yaml\n(.*?)^```$", text, re.M | re.S
    )
    return [body for block in blocks for body in yaml.safe_load_all(block)]
