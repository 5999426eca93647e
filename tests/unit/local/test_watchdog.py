"""What ends the processes and containers of a run, also when the run itself is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from di_local import watchdog
from tests.programs import Program
from tests.unit.local.machine import FOR_EVER
from tests.waiting import DEADLINE


@contextmanager
def program(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, watchdog.MARK: mark}
    command = [sys.executable, "-S", "-c", FOR_EVER]
    with Program(command, env=env, start_new_session=True) as found:
        try:
            yield found
        finally:
            found.kill()


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """It has two containers, and writes down what it is asked."""
    path = tmp_path / "engine"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho one two\n')
    path.chmod(0o755)
    return path


def asked(mark: str) -> str:
    return f"ps --all --quiet --filter label={watchdog.MARK}={mark}\nrm --force one two\n"


def test_all_processes_with_a_runs_mark_are_ended_and_no_others(tmp_path: Path) -> None:
    mark = str(tmp_path)
    with program(mark) as ours, program(f"{mark}-other") as other:
        assert [*watchdog.marked(mark)] == [ours.pid]
        assert watchdog.sweep(mark)
        assert ours.wait(DEADLINE) == -signal.SIGKILL
        assert other.poll() is None
        assert not [*watchdog.marked(mark)]


def test_containers_of_a_run_are_removed_by_their_label(tmp_path: Path, engine: Path) -> None:
    watchdog.remove("run", [str(engine)])
    assert (tmp_path / "asked").read_text() == asked("run")
    engine.unlink()
    watchdog.remove("run", [str(engine)])  # an engine that is gone is no error


def test_a_run_that_is_gone_leaves_no_process_container_or_secret(
    tmp_path: Path, engine: Path
) -> None:
    mark, secret = str(tmp_path), tmp_path / "secret"
    secret.write_text("token")
    with program(mark) as ours, watchdog.start(mark, secret, [str(engine)]) as guard:
        assert guard.stdin is not None
        guard.stdin.close()  # as the kernel does for a process that ends
        assert guard.wait(DEADLINE) == 0
        assert ours.wait(DEADLINE) == -signal.SIGKILL
    assert not secret.exists()
    assert (tmp_path / "asked").read_text() == asked(mark)
