"""Processes of `di run` that end with this one."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Final

from di_cli.access.local_runs import known_runs
from di_cli.client.errors import JobsError
from di_cli.output import note

if TYPE_CHECKING:
    from di_local.runs import Run

Process = subprocess.Popen[bytes]
POLL_SECONDS: Final = 0.05
END_SECONDS: Final = 40.0
"""Seconds for the end of a run in order: the grace period of pods is 30 s."""


def start_run(words: list[str]) -> tuple[Run, Process]:
    """Start `di run`; return its run once it is recorded. Raises JobsError."""
    with TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "di_local", "run", *words],
            # `python3` of the program is the Python of this process, with its packages.
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a notebook interrupts its cell alone.
            start_new_session=True,
        )
        atexit.register(end_run, process)
        while (run := _run_of(process)) is None and process.poll() is None:
            time.sleep(POLL_SECONDS)
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    run = run or _run_of(process)
    if run is None:
        refused = [line.removeprefix("refused: ") for line in lines]
        raise JobsError("the job does not run on this machine", where="\n".join(refused))
    for line in lines:
        note(line)
    return run, process


def end_run(process: Process) -> None:
    """End a run in order, or at once after the grace period."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def kept_folder() -> Path:
    """Return a new folder that stays until this process ends, because pods read its files."""
    folder = TemporaryDirectory(prefix="di-jobs-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _run_of(process: Process) -> Run | None:
    return next((run for run in known_runs() if run.pid == process.pid), None)
