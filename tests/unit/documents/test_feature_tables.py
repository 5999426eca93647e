"""The tables that compare features name tests that exist, or say why there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/explanation/feature-by-feature.md"
PAGES = (PAGE, ROOT / "docs/how-to/teams.md")
NAME = re.compile(r"`(test_[a-z0-9_]+)`")
DEFINED = re.compile(r"^(?:async )?def (test_[a-z0-9_]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def names() -> frozenset[str]:
    """The names of all tests."""
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(name for file in files for name in DEFINED.findall(file.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_feature_table_names_exists(page: Path, names: frozenset[str]) -> None:
    named = set(NAME.findall(page.read_text()))
    assert named
    assert named - names == set()


def test_every_compared_feature_has_a_test_or_a_reason() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    last = [row.rstrip("|").rsplit("|", 1)[-1].strip() for row in rows]
    cells = [each for each in last if each != "test, or why not"]
    assert len(cells) > 50
    assert [each for each in cells if not NAME.search(each) and "Left out" not in each] == []
