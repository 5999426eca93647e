"""The page's requests need the rights of docs/how-to/dashboard.md, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.api_server import StandIn
from tests.unit.cli.test_rights import right
from tests.unit.dashboard.conftest import Page
from tests.unit.dashboard.test_pages import PATHS, form

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs/how-to/dashboard.md"
_HISTORY: Final = "what the history has"
"""What a token and kubectl do; the page asks for it where there is a history."""


def documented() -> set[str]:
    """Verb and resource, of all rows but that of the history."""
    part = DOCUMENT.read_text().partition("\n## Rights\n")[2].partition("\n## ")[0]
    found = set()
    for row, cell in re.findall(r"^\| (.+?) \| (.+) \|$", part, re.MULTILINE):
        if row != _HISTORY:
            named = cell.replace("the ConfigMap `di-operator`", "`configmaps`")
            words = re.findall(r"`([a-z]+(?:/\w+)?)`", named)
            verbs = {"get", "list", "watch", "patch", "delete"}.intersection(words)
            found |= {f"{verb} {each}" for verb in verbs for each in words if each not in verbs}
    return found


@pytest.mark.proves(
    "dashboard.md#rights/jobs",
    "dashboard.md#rights/pods-why-what-happened",
    "dashboard.md#rights/nodes",
    "dashboard.md#rights/what-pods-use",
    "dashboard.md#rights/use-of-gpus",
    "dashboard.md#rights/logs-last-words-of-pods-that-failed",
    "dashboard.md#rights/shares-expected-starts",
    "dashboard.md#rights/scaling-suspending-resuming",
    "dashboard.md#rights/deleting",
)
def test_the_page_needs_the_rights_that_the_document_names(page: Page, world: StandIn) -> None:
    page.enter()
    for path in PATHS[:-1]:
        assert page.get(path).status_code == 200
    job = "/jobs/rl/grpo-7b"
    asked = page.get(f"{job}/scale?task=collector&replicas=3").text
    page.post(f"{job}/scale", **form(asked))
    page.post(f"{job}/delete", **form(page.get(f"{job}/delete").text))
    requests = {right(method, path) for method, path, _ in world.requests if path != "/version"}
    assert requests == documented()
