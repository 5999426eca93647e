"""Programs under measurement: starting them, and what the kernel says they cost."""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_STOP_SECONDS = 60


@asynccontextmanager
async def running(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """Run a program until the block ends; its output goes to `log`, SIGTERM ends it.

    Raises:
        TimeoutError: it does not end within a minute (it is killed then).
    """
    with log.open("ab") as output:
        child = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **(environment or {})},
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        try:
            await asyncio.wait_for(child.wait(), _STOP_SECONDS)
        except TimeoutError:
            child.kill()
            await child.wait()
            raise


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process and its children (gunicorn's workers)."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def memory_mib(pid: int) -> float:
    """Resident memory now."""
    return _status_mib(pid, "VmRSS")


def peak_memory_mib(pid: int) -> float:
    """The most resident memory the process ever had."""
    return _status_mib(pid, "VmHWM")


def shared_memory_mib(pid: int) -> float:
    """Resident memory of a process, with what several share counted in parts (Pss)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def machine_seconds() -> tuple[float, float]:
    """Seconds that all processors together have been (busy, idle) since the machine started."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    hertz = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - idle) / hertz, idle / hertz


def _status_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return round(int(value.split()[0]) / 1024, 1)
    raise ProcessLookupError(f"process {pid} has ended")
