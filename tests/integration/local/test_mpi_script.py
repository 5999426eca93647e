"""The script that starts mpirun, with stand-ins for the commands of OpenSSH and for mpirun."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from di_api.spec import Framework, ProcessGroup, Task, TaskType
from di_operator.builders.mpi import mpi_environment, with_mpi
from tests.waiting import wait_until

SSHD = """
trap 'exit 0' TERM
echo sshd >> "$CALLS"
while :; do sleep 0.05; done
"""
SSH_KEYGEN = "echo ssh-ed25519 AAAA"
SSH = """
host=$3
shift 3
echo "$host $*" >> "$CALLS"
[ -e "$ANSWERS/$host" ] || { echo "$host: refused" >&2; exit 255; }
"""
MPIRUN = """
echo "mpirun $*" >> "$CALLS"
cat "$OMPI_MCA_orte_default_hostfile" "$HYDRA_HOST_FILE" >> "$CALLS"
exit "$CODE"
"""


class Pod:
    """A pod's container, whose commands of OpenSSH are stand-ins."""

    def __init__(self, folder: Path, *, index: int = 0, code: int = 0, seconds: int = 600) -> None:
        self.calls, self.answers, programs = (folder / n for n in ("calls", "answers", "bin"))
        for each in (self.answers, programs):
            each.mkdir()
        self.calls.touch()
        stand_ins = {"sshd": SSHD, "ssh-keygen": SSH_KEYGEN, "ssh": SSH, "mpirun": MPIRUN}
        for name, text in stand_ins.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}")
            (programs / name).chmod(0o700)
        group = ProcessGroup(framework=Framework.MPI)
        task = Task(name="learner", type=TaskType.LEARNER, process_group=group, template={})
        (container,) = with_mpi([{"command": ["mpirun", "train"]}], task)
        # A shell cannot trap a signal that it was started with as ignored, as in the background.
        self.command = ["env", "--default-signal=INT", *container["command"]]
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "TMPDIR": str(folder),
            "CALLS": str(self.calls),
            "ANSWERS": str(self.answers),
            "CODE": str(code),
            "DI_MPI_HOSTS": "first,second",
            "DI_MPI_SLOTS": "2",
            "DI_MPI_INDEX": str(index),
            "DI_MPI_PORT": "10314",
            "DI_MPI_WAIT_SECONDS": str(seconds),
            **mpi_environment(task, "secret"),
        }
        self.files = folder / "di-mpi"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Yield the process of the container."""
        with subprocess.Popen(
            self.command, env=self.environment, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def answering(self, *hosts: str) -> None:
        """Let sshd of these pods answer."""
        for host in hosts:
            (self.answers / host).touch()

    def called(self) -> list[str]:
        """Return the calls of ssh and mpirun so far."""
        return self.calls.read_text().splitlines()


def test_the_command_of_mpi_starts_when_all_pods_answer(tmp_path: Path) -> None:
    pod = Pod(tmp_path)
    pod.answering("first")
    with pod.running() as process:
        wait_until(lambda: pod.called().count("second true") >= 2)
        assert "mpirun train" not in pod.called()
        pod.answering("second")
        assert process.wait() == 0
    begun = pod.called().index("mpirun train")
    assert pod.called()[begun + 1 :] == [
        *("first slots=2", "second slots=2"),
        *("first:2", "second:2"),
        *("first di-mpi-end", "second di-mpi-end"),
    ]


def test_a_pod_that_never_answers_fails_the_launcher_with_its_name(tmp_path: Path) -> None:
    pod = Pod(tmp_path, seconds=0)
    pod.answering("first")
    with pod.running() as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait() == 1
    assert said == "di-mpi: no ssh to second within 0 seconds: second: refused\n"


def test_a_failed_command_of_mpi_fails_its_pod_and_ends_no_other(tmp_path: Path) -> None:
    pod = Pod(tmp_path, code=3)
    pod.answering("first", "second")
    with pod.running() as process:
        assert process.wait() == 3
    assert not any("di-mpi-end" in each for each in pod.called())


def test_another_pod_of_mpi_ends_when_the_launcher_asks(tmp_path: Path) -> None:
    pod = Pod(tmp_path, index=1)
    with pod.running() as process:
        # sshd starts after all files are written, so real sessions come later, too.
        wait_until(lambda: "sshd" in pod.called())
        enter = {
            "PATH": os.environ["PATH"],
            "SSH_ORIGINAL_COMMAND": "echo $DI_MPI_INDEX${DI_MPI_KEY:-}",
        }
        command = ["sh", str(pod.files / "enter")]
        said = subprocess.run(command, env=enter, capture_output=True, check=True)
        assert said.stdout == b"1\n", "a process has the variables of its pod, without the key"
        assert process.poll() is None
        subprocess.run(command, env={**enter, "SSH_ORIGINAL_COMMAND": "di-mpi-end"}, check=True)
        assert process.wait() == 0


@pytest.mark.parametrize("wanted", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_in_another_pod_of_mpi_reaches_the_processes(
    tmp_path: Path, wanted: signal.Signals
) -> None:
    pod = Pod(tmp_path, index=1)
    with pod.running() as process:
        # sshd starts after all files are written, so real sessions come later, too.
        wait_until(lambda: "sshd" in pod.called())
        held = "exec sh -c 'trap \"exit 7\" TERM; touch $CALLS.up; while :; do sleep 0.05; done'"
        environment = {**pod.environment, "SSH_ORIGINAL_COMMAND": held}
        with subprocess.Popen(["sh", str(pod.files / "enter")], env=environment) as session:
            wait_until(Path(f"{pod.calls}.up").exists)
            process.send_signal(wanted)
            assert session.wait() == 7
            assert process.wait() == 0
