"""What counts as a finding of a fuzz run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.fuzz import campaign, rest
from tools.fuzz.outcome import GROWTH_MIB

LOG = """\
#79	INITED cov: 166 ft: 516 corp: 41/36Kb exec/s: 0 rss: 80Mb
#1024	pulse  cov: 170 ft: 520 corp: 42/37Kb lim: 16384 exec/s: 512 rss: 82Mb
#8192	DONE   cov: 171 ft: 521 corp: 43/38Kb lim: 16384 exec/s: 512 rss: {late}Mb
stat::number_of_executed_units: 8200
"""
CRASH = """
 === Uncaught Python exception: ===
KeyError: 'spec'
Traceback (most recent call last):
artifact_prefix='out/x/'; Test unit written to out/x/crash-1
"""
FAILURE = {"title": "Server error", "count": 2, "operations": ["GET /v2alpha1/{id}/replicas"]}


@pytest.mark.parametrize(
    ("log", "code", "late", "finding"),
    [
        (LOG, 0, 83, None),
        (LOG, 0, 82 + GROWTH_MIB, None),
        (LOG, 0, 83 + GROWTH_MIB, f"grew from 82 to {83 + GROWTH_MIB} MiB"),
        (LOG + CRASH, 77, 83, "KeyError: 'spec'; again by: python -m tools.fuzz.one x out/x/crash"),
        ("", 1, 0, "ended with 1"),
    ],
    ids=["clean", "within the bound", "memory grows", "a crash", "an exit without a message"],
)
def test_a_fuzz_process_fails_by(
    log: str, code: int, late: int, finding: str | None, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text(log.format(late=late))
    found = campaign.read_outcome("x", code, tmp_path / "log")
    if finding is None:
        assert (found.runs, found.covered, found.wrong) == (8200, 171, ())
    else:
        (wrong,) = found.wrong
        assert finding in wrong


@pytest.mark.parametrize(
    ("report", "late", "is_wrong"),
    [
        ({"exit_code": 0}, 60 + GROWTH_MIB, False),
        ({"exit_code": 0}, 61 + GROWTH_MIB, True),
        ({"exit_code": 1, "failures": [FAILURE]}, 60, True),
        ({"exit_code": 1, "errors": [{"title": "no schema"}]}, 60, True),
        ({"exit_code": 2}, 60, True),
        (None, 60, True),
    ],
    ids=["clean", "memory grows", "a failed check", "an error", "it did not finish", "no report"],
)
def test_a_schemathesis_run_fails_by(
    report: dict[str, Any] | None, late: int, is_wrong: bool, tmp_path: Path
) -> None:
    if report is not None:
        (tmp_path / "report.json").write_text(json.dumps(report))
    answers = {"listReplicas": {"200": 5, "404": 2}}
    found = rest.read_outcome(
        "off", tmp_path / "report.json", tmp_path / "log", answers, (60, late)
    )
    assert (found.requests, bool(found.wrong)) == (7, is_wrong)
