"""A process that was to end and does not."""

from __future__ import annotations

import subprocess
import sys

from tests.programs import Program

_HANGS = """
import asyncio, threading
from di_operator.process.exit_deadline import ExitDeadline

async def main():
    ExitDeadline(seconds={seconds}).start()
    {hangs}

asyncio.run(main())
"""


def test_the_process_ends_when_its_event_loop_is_blocked() -> None:
    ended = _run("threading.Event().wait()")
    assert ended.returncode == 1
    assert "did not end in time" in ended.stdout
    assert "threading.py" in ended.stderr, "the stacks of all threads"


def test_the_process_ends_when_a_thread_does_not() -> None:
    ended = _run("threading.Thread(target=threading.Event().wait).start()")
    assert ended.returncode == 1


def test_a_process_that_ends_in_time_keeps_its_exit_code() -> None:
    assert _run("raise SystemExit(7)", seconds=3600).returncode == 7


def test_a_process_that_has_ended_frees_nothing_first() -> None:
    program = """
import threading
from di_operator.process.exit_deadline import exit_at_once

class Hangs:
    def __del__(self):
        threading.Event().wait()

hangs = Hangs()
print("the last line")
exit_at_once(3)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600
    )
    assert (ended.returncode, ended.stdout) == (3, "the last line\n")


def test_the_process_ends_when_its_output_is_not_read() -> None:
    write = "while True: logging.getLogger().error('x' * 1000)"
    program = _HANGS.format(hangs=write, seconds=0.2).replace(
        "async def", "import logging, sys\nlogging.basicConfig(stream=sys.stdout)\n\nasync def"
    )
    command = [sys.executable, "-c", program]
    with Program(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert process.wait(60) == 1
        finally:
            process.kill()


def _run(hangs: str, seconds: float = 0.2) -> subprocess.CompletedProcess[str]:
    program = _HANGS.format(hangs=hangs, seconds=seconds)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600
    )
