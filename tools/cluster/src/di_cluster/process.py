"""Long-running processes, remembered in pid files that a reused pid cannot fool."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from di_cluster.waiting import wait_until

_STAT_STATE = 0
_STAT_USER_TICKS, _STAT_SYSTEM_TICKS = 11, 12
_STAT_START_TIME = 19


@dataclass(frozen=True, slots=True)
class Process:
    """One life of a process: its pid alone may come to mean another process later."""

    pid: int
    start_time: str

    @property
    def alive(self) -> bool:
        fields = _stat(self.pid)
        return fields is not None and fields[_STAT_START_TIME] == self.start_time

    def memory(self) -> int:
        """Resident memory in bytes; 0 if it is dead."""
        with contextlib.suppress(OSError, ValueError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self) -> float:
        """User and system time used so far; 0 if it is dead."""
        fields = _stat(self.pid)
        if fields is None:
            return 0
        ticks = int(fields[_STAT_USER_TICKS]) + int(fields[_STAT_SYSTEM_TICKS])
        return ticks / os.sysconf("SC_CLK_TCK")

    def age_seconds(self) -> float:
        """Time since it was started."""
        started = int(self.start_time) / os.sysconf("SC_CLK_TCK")
        return float(Path("/proc/uptime").read_text().split()[0]) - started

    def kill(self, *, seconds: float = 20) -> None:
        """End it with SIGKILL and wait until it is gone.

        Raises:
            TimedOut: it is still there after `seconds` (it hangs in the kernel).
        """
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        wait_until(
            lambda: not self.alive, seconds=seconds, what=f"process {self.pid} to end", every=0.01
        )
        reap()

    def children(self) -> list[int]:
        """The pids of its child processes now; empty if it is dead."""
        try:
            return [
                int(pid)
                for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            ]
        except OSError:
            return []

    def first_child(self) -> Process:
        """The process it forked; waits up to ten seconds for the fork.

        Raises:
            ProcessLookupError: it ended, or its child did.
            TimedOut: it forks nothing.
        """
        wait_until(
            lambda: bool(self.children()) or not self.alive,
            seconds=10,
            what=f"a child of process {self.pid}",
            every=0.005,
        )
        child = next(map(find, self.children()), None)
        if child is None:
            raise ProcessLookupError(f"process {self.pid} or its child ended at once")
        return child

    def child_in_namespace(self, inner_pid: int) -> Process | None:
        """Its child that has the pid `inner_pid` in the child's own pid namespace."""
        for pid in self.children():
            if _namespace_pid(pid) == inner_pid:
                return find(pid)
        return None


def find(pid: int) -> Process | None:
    """The process that has this pid now; None if there is none or it is a zombie."""
    fields = _stat(pid)
    return None if fields is None else Process(pid, fields[_STAT_START_TIME])


def spawn(
    argv: Sequence[str | Path], *, log: Path, environment: Mapping[str, str], stdin: int
) -> Process:
    """Start a process in its own session, reading `stdin`, its output appended to `log`.

    posix_spawn rather than subprocess: the process is to outlive us, and a Popen object that is
    dropped while its process runs warns.

    Raises:
        OSError: the program cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in argv]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawnp(
        words[0],
        words,
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()),
        ],
        setsid=True,
        setsigmask=(),
    )
    process = find(pid)
    if process is None:
        raise ProcessLookupError(f"{words[0]} ended at once; see {log}")
    _spawned.add(pid)
    return process


def _inheritable() -> list[int]:
    """Descriptors that we got from who started us, as from a shell that holds a lock or reads a
    pipe: in a process that outlives us they would keep it waiting."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        # The one that lists the folder is closed by now.
        with contextlib.suppress(OSError):
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
    return found


# Children that this interpreter has to reap: nobody waits for daemons, and a long-lived test
# runner would otherwise collect a zombie for each of them.
_spawned: set[int] = set()


def reap() -> None:
    """Collect the exit codes of spawned processes that have ended."""
    for pid in tuple(_spawned):
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            done = pid
        if done:
            _spawned.discard(pid)


class PidFile:
    """A file that holds a process's pid and start time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.stem

    def write(self, process: Process) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(f"{process.pid} {process.start_time}\n")
        temporary.replace(self.path)

    def read(self) -> Process | None:
        """The process if it is still alive; None also for a missing or damaged file."""
        try:
            pid, start_time = self.path.read_text().split()
            process = Process(int(pid), start_time)
        except (OSError, ValueError):
            return None
        return process if process.alive else None


def _namespace_pid(pid: int) -> int | None:
    """The pid of a process in its innermost pid namespace; None if it is dead."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None if dead or a zombie.

    A process whose first thread has ended shows as a zombie while the others still end; until
    they have, it keeps its files, and the address that its successor is to listen on.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The program's name is in parentheses and may hold blanks and parentheses itself.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[_STAT_STATE] in {"Z", "X"} and not _has_more_threads(pid) else fields


def _has_more_threads(pid: int) -> bool:
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
