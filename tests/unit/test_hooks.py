"""The hook that git runs before a commit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOC = '"""A module."""\n'
GOOD, UNFORMATTED, UNUSED = DOC, f"{DOC}VALUE = [1,2]\n", f"{DOC}import os\n"


def git(folder: Path, *arguments: str) -> None:
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *user, *arguments], cwd=folder, check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository after `make setup`, with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    git(folder, "add", "pyproject.toml")
    git(folder, "commit", "--quiet", "--message=First")
    return folder


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
@pytest.mark.parametrize("in_worktree", [False, True])
def test_a_commit_is_refused_for_format_or_lint_of_what_it_adds(
    added: str, changed_later: str, passes: bool, in_worktree: bool, repository: Path
) -> None:
    folder = repository
    if in_worktree:
        folder = repository.parent / "worktree"
        git(repository, "worktree", "add", "--quiet", str(folder))
    module = folder / "a module.py"
    module.write_text(added)
    git(folder, "add", module.name)
    module.write_text(changed_later)
    hook = subprocess.run(
        [ROOT / "tools/hooks/pre-commit"], cwd=folder, check=False, capture_output=True, text=True
    )
    assert (hook.returncode == 0) == passes, hook.stdout + hook.stderr
    assert passes or "a module.py" in hook.stdout + hook.stderr
