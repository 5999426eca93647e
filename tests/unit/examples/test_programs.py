"""The programs of one file run by themselves, and as a job on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent


def run(folder: Path, *command: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DI_")}
    environment["PATH"] = f"{BIN}:{environment['PATH']}"  # a pod runs the python3 that is there
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, "XDG_STATE_HOME": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("program", "said"),
    [("plain", " after 300 steps"), ("gymnasium", " steps of the environment")],
)
def test_a_program_runs_by_itself_and_as_a_job(program: str, said: str, tmp_path: Path) -> None:
    file = str(ROOT / "examples" / program / "train.py")
    assert said in run(tmp_path, sys.executable, file)
    shown = run(tmp_path, str(BIN / "di"), "run", file, "-f")
    assert said in shown
    assert "Succeeded" in shown
