"""Whether a process still lives, as the kernel tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from di_cluster.process import find
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
        program.wait(10)
        wait_until(lambda: find(program.pid) is None, what="it to be gone")
    finally:
        program.kill()
        program.communicate()
