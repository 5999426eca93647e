"""What the documents name is what the services have."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from di_operator.builders.access import Access
from di_operator.lifecycle.reasons import OF_PHASES, Problem, Reason
from di_operator.metrics import Metrics as OperatorMetrics
from di_server.metrics import Metrics as ServerMetrics
from tests.documents import events, metrics

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tests").rglob("*.md")]


def test_the_metrics_worth_an_alert_are_there() -> None:
    named = re.findall(r"^\| `(di_\w+)\{", (DOCS / "operations.md").read_text(), re.MULTILINE)
    assert len(named) == 4
    registries = (OperatorMetrics().registry, ServerMetrics().registry)
    there = {family.name for registry in registries for family in registry.collect()}
    assert {name.removesuffix("_total") for name in named} <= there


def test_what_a_pod_is_told_of_the_server_is_documented() -> None:
    variables = Access(token_audience="di-server", server_ca="pem").environment()
    page = (DOCS / "rest.md").read_text()
    assert [name for name in variables if f"`{name}` names a file" not in page] == []


def test_a_reason_that_is_declared_is_given_somewhere() -> None:
    """The other way round mypy holds: an event has no reason but those."""
    operator = ROOT / "services" / "operator" / "src" / "di_operator"
    code = "".join(file.read_text() for file in operator.rglob("*.py"))
    of_phases = set(OF_PHASES.values())
    assert [
        each
        for each in (*Reason, *Problem)
        if each not in of_phases and not re.search(rf"\b{type(each).__name__}\.{each.name}\b", code)
    ] == []


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


@pytest.mark.parametrize("made", [events, metrics], ids=["events", "metrics"])
def test_a_table_is_that_of_the_declarations(made: ModuleType) -> None:
    assert made.FILE.read_text() == made.document(), "make generate writes it anew"
