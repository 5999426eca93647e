"""What a report of schemathesis says, read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.fuzz.outcome import GROWTH_MIB
from tools.fuzz.rest import Asked, read_outcome

FAILURE = {"title": "Server error", "count": 2, "operations": ["GET /v2alpha1/{id}/replicas"]}


def _outcome(folder: Path, late: int = 60, **report: Any) -> Asked:
    file = folder / "report.json"
    if report:
        file.write_text(json.dumps(report))
    answers = {"listReplicas": {"200": 5, "404": 2}}
    return read_outcome("off", file, folder / "log", answers, (60, late))


def test_a_run_without_findings(tmp_path: Path) -> None:
    found = _outcome(tmp_path, exit_code=0)
    assert (found.requests, found.wrong) == (7, ())


def test_a_failed_check_is_a_finding(tmp_path: Path) -> None:
    (wrong,) = _outcome(tmp_path, exit_code=1, failures=[FAILURE]).wrong
    assert wrong.startswith("Server error (2): GET /v2alpha1/{id}/replicas, see ")


def test_a_run_that_did_not_finish_is_a_finding(tmp_path: Path) -> None:
    for report in ({}, {"exit_code": 2}, {"exit_code": 1, "errors": [{"title": "no schema"}]}):
        assert _outcome(tmp_path, **report).wrong


def test_a_server_that_grows_after_the_first_quarter_is_a_finding(tmp_path: Path) -> None:
    assert not _outcome(tmp_path, late=60 + GROWTH_MIB, exit_code=0).wrong
    assert _outcome(tmp_path, late=61 + GROWTH_MIB, exit_code=0).wrong
