"""The hook that git runs before a commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOC = '"""A module."""\n'
GOOD, UNFORMATTED, UNUSED = DOC, f"{DOC}VALUE = [1,2]\n", f"{DOC}import os\n"


@pytest.mark.parametrize(
    ("added", "changed_later", "passes"),
    [
        (GOOD, GOOD, True),
        (UNFORMATTED, UNFORMATTED, False),
        (UNUSED, UNUSED, False),
        # What is not added is not committed.
        (GOOD, UNUSED, True),
        (UNUSED, GOOD, False),
    ],
)
def test_a_commit_is_refused_for_format_or_lint_of_what_it_adds(
    added: str, changed_later: str, passes: bool, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    module = tmp_path / "a module.py"
    module.write_text(added)
    git("add", "pyproject.toml", module.name)
    module.write_text(changed_later)
    hook = subprocess.run(
        [ROOT / "tools/hooks/pre-commit"], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert (hook.returncode == 0) == passes, hook.stdout + hook.stderr
    assert passes or "a module.py" in hook.stdout + hook.stderr
