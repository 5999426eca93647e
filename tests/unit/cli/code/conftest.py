"""Programs and folders to submit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from di_cli.code.files import File

SMALL = {".di-fallback/di_orchestrator/__init__.py": File(b"")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without git, with a program in it."""
    found = tmp_path / "cartpole"
    found.mkdir()
    (found / "train.py").write_text("print('first line')\n")
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles without the packages of this environment, which take time to compress."""
    monkeypatch.setattr("di_cli.actions.program.packages", lambda: SMALL)


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *settings, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
