"""Runs of the tests, one after another."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools.lanes import repeat


def test_failed_runs_are_counted_and_what_they_left_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Fails at its second run, which finds what the first one left.
    program = (
        "import os; os.makedirs('out/check', exist_ok=True); found = os.listdir('out/check'); "
        "open(f'out/check/{len(found)}', 'w').close(); print(found); raise SystemExit(len(found))"
    )
    (tmp_path / "out/earlier").mkdir(parents=True)
    os.utime(tmp_path / "out/earlier", (0, 0))
    assert repeat.main(["--times", "2", "--busy", "1", "--", sys.executable, "-c", program]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run 1: passed in ")
    assert lines[1].startswith("run 2: FAILED, kept in out/repeat/2 in ")
    assert lines[2] == "1 of 2 runs failed"
    assert [each.name for each in (tmp_path / "out/repeat/2").iterdir()] == ["check"]
    assert (tmp_path / "out/repeat/2.log").read_text() == "['0']\n"
