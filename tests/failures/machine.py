"""How busy the machine is: load, pressure, memory, disks and the busiest processes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SAMPLE_SECONDS: Final = 0.5
_SHOWN: Final = 20
_UTIME, _STIME, _RSS = 11, 12, 21
"""Fields of /proc/PID/stat after the program's name."""


@dataclass(frozen=True, slots=True)
class _Process:
    ticks: int
    memory: int


def described(folders: Iterable[Path]) -> str:
    """All of it as a text, with the free space of the disks that the folders are on."""
    return "\n".join(f"== {title}\n{text().rstrip()}\n" for title, text in _parts(folders))


def _parts(folders: Iterable[Path]) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "Python", lambda: f"{sys.version} on {os.uname().release}, {os.cpu_count()} processors"
    yield "load", Path("/proc/loadavg").read_text
    for name in ("cpu", "io", "memory"):
        yield f"pressure of {name}", _text_of(Path("/proc/pressure", name))
    yield "memory", lambda: "".join(Path("/proc/meminfo").read_text().splitlines(keepends=True)[:5])
    yield "out of memory", _killed
    yield "disks", lambda: "\n".join(map(_disk, folders))
    yield "processes", _busiest


def _text_of(path: Path) -> Callable[[], str]:
    # A kernel may be built without it.
    return lambda: path.read_text() if path.exists() else "unknown"


def _killed() -> str:
    lines = Path("/proc/vmstat").read_text().splitlines()
    return "\n".join(line for line in lines if line.startswith("oom_kill"))


def _disk(folder: Path) -> str:
    usage = shutil.disk_usage(folder)
    return f"{folder}: {usage.free / 2**30:.1f} GiB free of {usage.total / 2**30:.1f}"


def _busiest() -> str:
    before = _processes()
    time.sleep(_SAMPLE_SECONDS)  # what is measured is this time
    after = _processes()
    a_second = os.sysconf("SC_CLK_TCK") * _SAMPLE_SECONDS
    used = {
        pid: (found.ticks - before[pid].ticks) / a_second
        for pid, found in after.items()
        if pid in before
    }
    by_memory = sorted(after, key=lambda pid: after[pid].memory, reverse=True)[: _SHOWN // 2]
    by_time = sorted(used, key=lambda pid: used[pid], reverse=True)[:_SHOWN]
    lines = [
        f"{used.get(pid, 0):7.0%} {after[pid].memory >> 20:6d} MiB {pid:8d} {_command(pid)}"
        for pid in dict.fromkeys([*by_time, *by_memory])
    ]
    return "\n".join(["    CPU     memory      pid command", *lines])


def _processes() -> Mapping[int, _Process]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        found[int(path.parent.name)] = _Process(
            ticks=int(fields[_UTIME]) + int(fields[_STIME]),
            memory=int(fields[_RSS]) * os.sysconf("SC_PAGE_SIZE"),
        )
    return found


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return words.decode(errors="replace")[:160] or Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "ended"
