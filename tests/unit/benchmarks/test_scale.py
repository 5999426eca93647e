"""The page of what jobs that have ended cost, by their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.benchmarks import page, report
from tools.benchmarks.processes import ROOT

SIZE: dict[str, Any] = {
    "jobs": 1000,
    "pods": 5000,
    "filled_seconds": 9.0,
    "filled_cpu_seconds": 1.5,
    "filled_mib": 80.0,
    "peak_mib": 90.5,
    "poll_cpu_seconds": 0.25,
    "list_cpu_seconds": 2.0,
    "list_mib": 70.0,
}
RESULTS = {"memory": {"sizes": [SIZE, {**SIZE, "jobs": 10000, "pods": 50000}]}}


def test_each_number_of_jobs_has_a_column_of_costs() -> None:
    lines = report.scale(RESULTS).splitlines()
    assert lines[0] == "|  | 1,000 jobs, 5,000 pods | 10,000 jobs, 50,000 pods |"
    assert "| operator: peak memory after two polls, MiB | 90.5 | 90.5 |" in lines
    assert "| `di list -A`: processor time, s | 2 | 2 |" in lines


def test_the_page_gets_the_table_and_keeps_its_text(tmp_path: Path) -> None:
    folder = tmp_path / "explanation"
    folder.mkdir()
    for name in ("scale.md", "performance.md"):
        (folder / name).write_text((ROOT / "docs/explanation" / name).read_text())
    page.write(RESULTS, tmp_path, is_whole=False)
    written = (folder / "scale.md").read_text()
    assert report.scale(RESULTS) in written
    assert "## Where one operator ends" in written


def test_a_run_without_that_phase_leaves_the_page_as_it_is() -> None:
    assert report.scale({}) == ""


def test_a_failover_has_a_table_with_the_largest_number_of_jobs_last() -> None:
    grown = {
        **{"jobs": 1000, "pods": 5000, "lease_seconds": 15.5, "failover_seconds": 16.2},
        **{"failover_cpu_seconds": 0.5, "standby_mib": 90.0, "page_seconds": 2.5},
        **{"page_again_seconds": 0.2, "page_kib": 40.0, "page_cpu_seconds": 1.5, "page_mib": 99.0},
    }
    most = {**grown, "jobs": 100_000, "pods": 200_000, "failover_seconds": 30.0}
    lines = report.growth(
        {"growth": {"sizes": [grown]}, "growth_100000": {"sizes": [most]}}
    ).splitlines()
    assert lines[0] == "|  | 1,000 jobs, 5,000 pods | 100,000 jobs, 200,000 pods |"
    assert "| the same: it decides again after, s | 16.2 | 30 |" in lines
