"""Processes that outlive us: whether they still live, and what they hold on to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from di_cluster.process import Process, find, reap, spawn
from tests.waiting import wait_until

LEADERLESS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""
"""A program whose first thread ends while another one waits for the end of its input."""


def test_a_process_lives_until_its_last_thread_has_ended() -> None:
    program = subprocess.Popen([sys.executable, "-c", LEADERLESS], stdin=subprocess.PIPE)
    try:
        stat = Path(f"/proc/{program.pid}/stat")
        wait_until(lambda: ") Z " in stat.read_text(), what="the first thread to end")
        process = find(program.pid)
        assert process is not None
        assert process.alive
        program.kill()
        program.wait(60)
        wait_until(lambda: find(program.pid) is None, what="it to be gone")
    finally:
        program.kill()
        program.communicate()


def test_a_spawned_process_inherits_no_descriptors(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    with open(os.devnull) as nothing:
        process = spawn(
            ["sleep", "60"], log=tmp_path / "log", environment=os.environ, stdin=nothing.fileno()
        )
    try:
        # What it opens to be loaded goes by itself.
        ours = os.readlink(f"/proc/self/fd/{writer}")
        wait_until(lambda: str(tmp_path / "log") in _held(process), what="it to run")
        assert ours not in _held(process)
    finally:
        os.close(writer)
        os.close(reader)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: find(process.pid) is None, what="it to be gone")
        reap()


def _held(process: Process) -> set[str]:
    held = set()
    for fd in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            held.add(os.readlink(fd))
    return held
