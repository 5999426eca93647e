"""Decisions have number, date and status, and the index has all of them."""

from __future__ import annotations

import re

from tools.documents.rows import ROOT

DECISIONS = ROOT / "docs/explanation/decisions"
_HEAD = re.compile(
    r"# (\d+)\. (.+)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: (proposed|accepted|superseded by \d+)\.\n"
)


def test_the_index_has_number_date_and_status_of_each_decision() -> None:
    expected = []
    for page in sorted(DECISIONS.glob("0*.md")):
        head = _HEAD.match(page.read_text())
        assert head, f"{page.name} begins with number, title, date and status"
        number, title, date, status = head.groups()
        assert page.name.startswith(f"{int(number):04}-")
        expected.append((number, f"[{title}]({page.name})", date, status))
    index = (DECISIONS / "README.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| .+ \|$", index, re.MULTILINE)
    assert rows == expected
    assert [int(number) for number, *_ in expected] == list(range(1, len(expected) + 1))
