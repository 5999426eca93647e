"""What the documents name is what the services have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from di_operator.lifecycle.problems import SOLVED
from di_operator.metrics import Metrics as OperatorMetrics
from di_server.metrics import Metrics as ServerMetrics
from tests.documents import metrics

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")]


def test_the_metrics_worth_an_alert_are_there() -> None:
    named = re.findall(r"^\| `(di_\w+)\{", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert len(named) == 4
    registries = (OperatorMetrics().registry, ServerMetrics().registry)
    there = {family.name for registry in registries for family in registry.collect()}
    assert {name.removesuffix("_total") for name in named} <= there


def test_the_conditions_of_problems_are_all_explained() -> None:
    text = (DOCS / "lifecycle.md").read_text()
    table = text.partition("| Condition | When it is True |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(SOLVED)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text())
    for name, heading in links:
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), name
        assert not heading or heading in anchors(target), f"{name}#{heading}"


def anchors(page: Path) -> set[str]:
    """Those that a Markdown renderer makes of the headings, as GitHub's does."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_the_table_of_metrics_is_that_of_the_declarations() -> None:
    assert metrics.FILE.read_text() == metrics.document(), "make generate writes it anew"
