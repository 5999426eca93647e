"""What ends the processes and containers of a run, also when the run itself is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

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


def test_a_process_whose_program_is_being_started_is_not_missed(tmp_path: Path) -> None:
    looked = threading.Event()

    class Proc(type(tmp_path)):  # type: ignore[misc]
        """Notes that the variables of a process were read."""

        @override
        def read_bytes(self) -> bytes:
            if self.name == "stat":
                looked.set()
            return super().read_bytes()  # type: ignore[no-any-return]

    def process(pid: int, env_start: int, environ: str) -> Path:
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "exe").symlink_to("/usr/bin/python3")
        stat = [f"{pid} (python (3))", "R", *("1" for _ in range(46)), str(env_start), "0"]
        (folder / "stat").write_text(" ".join(stat))
        (folder / "environ").write_text(environ)
        return folder

    process(2**22 + 1, 4096, "")  # it has no variables
    ours = process(2**22 + 2, 0, "")
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: [*watchdog.marked("run", Proc(tmp_path))])
        assert looked.wait(DEADLINE)
        (ours / "environ").write_text(f"A=1\0{watchdog.MARK}=run\0")
        assert found.result(DEADLINE) == [2**22 + 2]


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
