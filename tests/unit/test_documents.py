"""What the documents name is what the services have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from di_cli.main import COMMANDS
from di_operator.builders.access import Access
from di_operator.lifecycle.observed.blockers import BLOCKED_REASONS
from di_operator.lifecycle.vocabulary.reasons import OF_PHASES, Problem, Reason
from tests.e2e.lifecycle.test_blocked import LASTS, TROUBLES
from tests.e2e.lifecycle.test_stalled import STALLED
from tests.monitoring.alert_cases import CASES
from tools.documents import dashboards, events, metrics
from tools.documents.proofs import every_proof
from tools.documents.rows import every_row, plain
from tools.documents.tested import matched

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "tools").rglob("*.md")]


def alerts() -> dict[str, Mapping[str, Any]]:
    text = (ROOT / "charts/di-orchestrator/files/alerts.yaml").read_text()
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules}


@pytest.mark.proves("runbook.md#di*")
def test_the_runbook_has_a_part_for_each_alert_and_for_no_other() -> None:
    page = (DOCS / "how-to/runbook.md").read_text()
    parts = dict(re.findall(r"^## (\w+)\n\n(.+?)(?=\n## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(parts) == list(alerts()) == list(CASES)
    for name, part in parts.items():
        assert re.search(r"^- Look: .+^- Do: ", part, re.MULTILINE | re.DOTALL), name
        assert alerts()[name]["annotations"]["runbook"] == f"docs/how-to/runbook.md#{name.lower()}"


def test_alerts_and_dashboards_use_documented_metrics() -> None:
    there = set(
        re.findall(r"^\| `(di_\w+)` \|", (DOCS / "reference/metrics.md").read_text(), re.MULTILINE)
    )
    asked = [rule["expr"] for rule in alerts().values()]
    asked += [text for text, _ in dashboards.expressions()]
    named = {name for text in asked for name in re.findall(r"\bdi_\w+", text)}
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in named} <= there


def test_the_pods_server_variables_are_documented() -> None:
    variables = Access(token_audience="di-server", server_ca="pem").environment()
    page = " ".join((DOCS / "reference/rest.md").read_text().split())
    assert [name for name in variables if f"`{name}` names a file" not in page] == []


def test_every_declared_reason_is_used() -> None:
    """The other way round mypy holds: an event has no reason but those."""
    operator = ROOT / "services" / "operator" / "src" / "di_operator"
    code = "".join(file.read_text() for file in operator.rglob("*.py"))
    of_phases = set(OF_PHASES.values())
    assert [
        each
        for each in (*Reason, *Problem)
        if each not in of_phases and not re.search(rf"\b{type(each).__name__}\.{each.name}\b", code)
    ] == []


def test_a_test_of_what_is_wrong_asks_for_the_reasons_that_its_row_names() -> None:
    """Of "When something is wrong" in the runbook."""
    section = "runbook.md#when-something-is-wrong/"
    rows = [row for row in every_row() if row.name.startswith(section)]
    lines = (DOCS / "how-to/runbook.md").read_text().replace("\\|", "|").splitlines()
    declared = {*map(str, Reason), *map(str, Problem)}
    for row, proofs in matched(rows, every_proof()).items():
        line = next(each for each in lines if plain(each).startswith(f"| {row.text} |"))
        files = [(ROOT / proof.file).read_text() for proof in proofs]
        assert [
            each
            for each in re.findall(r"`([A-Z][A-Za-z]+)`", line)
            if each in declared and not any(each in text for text in files)
        ] == [], row.name


def test_every_blocked_reason_is_tried_on_a_real_node() -> None:
    tried = {LASTS[0], *(reason for _, reason, _ in TROUBLES.values())}
    tried |= {reason for reason, _, _ in STALLED.values()}
    assert tried == set(map(str, BLOCKED_REASONS))
    page = (DOCS / "reference/lifecycle.md").read_text()
    assert [each for each in BLOCKED_REASONS if f"`{each}`" not in page] == []


@pytest.mark.proves("operations.md#what-you-need")
def test_the_oldest_kubernetes_of_the_pages_is_that_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts/di-orchestrator/Chart.yaml").read_text())
    oldest = re.fullmatch(r">=(1\.\d+)\.0-0", chart["kubeVersion"])
    assert oldest
    assert f"Kubernetes {oldest[1]} or newer" in (DOCS / "how-to/operations.md").read_text()


def examples() -> list[tuple[str, str, list[str]]]:
    """Parts of examples in the pages: the page, the example, and its lines there."""
    pattern = r"<!-- of (examples/\S+) -->\n```(?:yaml|python)\n(.*?)^```$"
    return [
        (str(page.relative_to(DOCS)), name, text.splitlines())
        for page in DOCS.rglob("*.md")
        for name, text in re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)
    ]


def test_pages_show_lines_of_the_example() -> None:
    """Its lines in their order; others may be left out."""
    for page, name, lines in examples():
        left = iter((ROOT / name).read_text().splitlines())
        assert [line for line in lines if line not in left] == [], (page, name)


@pytest.mark.proves("dijob.md#ends-times-and-groups")
@pytest.mark.parametrize(
    "field",
    [
        *("successPolicy", "failurePolicy", "checkpoint", "progressPolicy", "processGroup"),
        *("nodeCheck", "templatePatch"),
        *("pendingTimeoutSeconds", "activeDeadlineSeconds"),
    ],
)
def test_a_policy_is_shown_by_an_example_that_tests_run(field: str) -> None:
    shown = [name for page, name, lines in examples() if f"{field}:" in "\n".join(lines)]
    assert shown
    # Those of test_training.py and others are found by their folders.
    run = "".join(file.read_text() for file in (ROOT / "tests" / "e2e").rglob("test_*.py"))
    assert [name for name in shown if f'"{name.split("/")[1]}"' in run], shown


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
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


# That they exist, with what they say of themselves; what counts them is in main.py.
@pytest.mark.proves(
    "metrics.md#server/di-server-member-exchanges-total",
    "metrics.md#history/di-history-follow-restarts-total",
    "metrics.md#history/di-history-stored-bytes",
    "metrics.md#history/di-history-jobs-given-up-total",
    "metrics.md#history/di-history-requests-total",
    "metrics.md#history/di-history-request-seconds",
)
@pytest.mark.parametrize("made", [events, metrics], ids=["events", "metrics"])
def test_a_table_is_generated_from_the_declarations(made: ModuleType) -> None:
    assert made.FILE.read_text() == made.document(), "make generate writes it anew"


@pytest.mark.parametrize(
    "page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem
)
def test_the_commands_of_a_tutorial_exist(page: Path) -> None:
    blocks = re.findall(r"^```\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    makefile = (ROOT / "Makefile").read_text()
    commands = [line.split() for line in lines if re.match(r"(di|make) ", line)]
    assert commands
    for program, command, *rest in commands:
        assert command in COMMANDS if program == "di" else f"\n{command}: " in makefile
        assert [
            each for each in rest if each.startswith("examples/") and not (ROOT / each).exists()
        ] == []


def test_the_map_leads_to_every_page() -> None:
    text = (DOCS / "map.md").read_text()
    pages = [
        each
        for each in DOCS.rglob("*.md")
        if each.parent.name != "decisions" or "README" in each.name
    ]
    assert [each for each in pages if f"({each.relative_to(DOCS)})" not in text] == [
        DOCS / "map.md"
    ]


def test_the_documents_call_the_release_by_one_name() -> None:
    command = re.compile(r"helm (?:install|upgrade|uninstall|rollback|test|get|history) ([^`]*)")
    names = {
        (file.name, next(word for word in found[1].split() if not word.startswith("-")))
        for file in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for found in command.finditer(file.read_text())
        if "charts/di-orchestrator" in found[1].split("\n")[0]
    }
    assert {name for _, name in names} == {"di-orchestrator"}, names
