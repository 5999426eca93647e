"""Fragments become a section of the changelog, newest first."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_fragments_become_the_section_of_a_version(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("how")
    (changes / "+one.added.md").write_text("One thing.\n")
    (changes / "+two.fixed.md").write_text("Another thing.\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.0.0"]
    subprocess.run(
        [*command, "--date", "2026-12-01"], cwd=tmp_path, check=True, capture_output=True
    )
    text = (tmp_path / "CHANGELOG.md").read_text()
    new, _, old = text.partition("## [0.1.0]")
    section = new.partition("<!-- versions, the newest first -->\n")[2]
    lines = [line for line in section.splitlines() if line]
    assert lines == [
        "## [9.0.0] - 2026-12-01",
        *("### Added", "- One thing."),
        *("### Fixed", "- Another thing."),
    ]
    assert "### Added" in old
    assert sorted(each.name for each in changes.iterdir()) == ["README.md"]
