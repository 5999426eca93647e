"""The page of results has the lines and branches that ran, by package and for each bad file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.lanes import page
from tools.lanes.branches import EXPLAINED, combine, read

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys

def word(number):
    if number:
        return "some"
    return "none"

print(word(int(sys.argv[1])))
"""


def summary(lines: int, of_lines: int, branches: int, of_branches: int) -> object:
    counts = {"covered_lines": lines, "num_statements": of_lines}
    return {"summary": {**counts, "covered_branches": branches, "num_branches": of_branches}}


def test_packages_and_files_are_shown_the_least_tested_first(tmp_path: Path) -> None:
    report = {
        "files": {
            "libraries/api/src/di_api/good.py": summary(90, 100, 20, 20),
            "libraries/api/src/di_api/empty.py": summary(0, 0, 0, 0),
            "cli/src/di_cli/bad.py": summary(8, 10, 2, 10),
            "cli/src/di_cli/views/fair.py": summary(45, 50, 15, 20),
        }
    }
    found = read(report, lines=Path("pages/index.html"))
    assert [(each.name, each.ran, each.total) for each in found.areas] == [
        ("di_cli", 70, 90),
        ("di_api", 110, 120),
    ]
    assert [(each.name, each.share) for each in found.below] == [
        ("cli/src/di_cli/bad.py", 0.5),
        ("cli/src/di_cli/views/fair.py", 60 / 70),
    ]
    page.write(tmp_path / "index.html", "title", [], [], found)
    shown = (tmp_path / "index.html").read_text()
    assert "<td>di_api<td class=number>110<td class=number>120<td class=number>91.7 %" in shown
    assert "bad.py<td class=number>10<td class=number>20<td class=number>50.0 %" in shown
    assert 'href="pages/index.html"' in shown


def test_what_two_processes_ran_is_added_up(tmp_path: Path) -> None:
    """A line counts whichever lane ran it."""
    folder, out = tmp_path / "src" / "di_one", tmp_path / "out"
    folder.mkdir(parents=True)
    out.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (tmp_path / "settings").write_text(f"[run]\nbranch = true\nsource = {folder}\n")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={tmp_path / 'settings'}"]
    for lane, argument in (("one", "0"), ("two", "1")):
        subprocess.run(
            [*command, "--parallel-mode", str(folder / "program.py"), argument],
            env={**os.environ, "COVERAGE_FILE": str(out / f"coverage.{lane}")},
            stdout=subprocess.DEVNULL,
            check=True,
        )
    found = combine(out)
    assert found is not None
    assert [(each.name, each.ran, each.total) for each in found.areas] == [("di_one", 8, 8)]
    assert not found.below
    assert (out / found.lines).exists()


def test_no_lane_has_measured_anything(tmp_path: Path) -> None:
    assert combine(tmp_path) is None


def test_files_that_are_explained_exist() -> None:
    assert not [name for name in EXPLAINED if not (ROOT / name).is_file()]
