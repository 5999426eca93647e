"""A pod of DI-engine's `dist` mode ends with DI-engine, of which there is a fake here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "di-engine" / "dist.py"
ENTRY = """
import threading

def dist_prepare_config(*_):
    return "prepared"

def dist_launch_coordinator(prepared, *_, **__):
    threading.Thread(target=threading.Event().wait).start()
    print(prepared, "training is over")

dist_launch_collector = dist_launch_learner = dist_launch_coordinator
"""
CONFIGURATION = "dizoo/classic_control/cartpole/config/parallel"


def test_a_coordinator_ends_with_a_thread_still_running(tmp_path: Path) -> None:
    for folder, name, text in (
        ("ding/entry", "dist_entry.py", ENTRY),
        (CONFIGURATION, "cartpole_dqn_config_k8s.py", ""),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text(text)
    ended = subprocess.run(
        [sys.executable, PROGRAM, "coordinator"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "prepared training is over\n"), ended.stderr
