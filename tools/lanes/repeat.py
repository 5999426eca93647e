"""Run a command of tests repeatedly on a busy or slow machine, and count its failures.

    python -m tools.lanes.repeat --times 10 --busy 2 -- make test
    python -m tools.lanes.repeat --latency 2 --disk 20 -- make test

What a failed run left in out/ is kept in out/repeat/NUMBER. Latency (of all connections on
loopback) needs root and the kernel's netem, a slower disk needs root and cgroups. Both are taken
back at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tools.lanes.progress import clock

OUT: Final = Path("out/repeat")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_MIB: Final = 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for; returns 0 if no run failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.lanes.repeat")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile")
    parser.add_argument("--latency", type=float, default=0.0, help="milliseconds on loopback")
    parser.add_argument(
        "--disk", type=float, default=0.0, help="MiB a second, reads and writes each"
    )
    parser.add_argument("command", nargs="+", help="after --")
    asked = parser.parse_args(arguments)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    failures = 0
    with ExitStack() as stack:
        for _ in range(asked.busy):
            stack.enter_context(_busy())
        if asked.latency:
            stack.enter_context(_latency(asked.latency))
        if asked.disk:
            stack.enter_context(_slow_disk(int(asked.disk * _MIB)))
        for number in range(1, asked.times + 1):
            failures += not run(number, asked.command)
    print(f"{failures} of {asked.times} runs failed")
    return 1 if failures else 0


def run(number: int, command: Sequence[str]) -> bool:
    """Run the command once; returns whether it passed. Its output is in out/repeat/NUMBER.log."""
    log, began, started = OUT / f"{number}.log", time.monotonic(), time.time()
    with log.open("wb") as output:
        code = subprocess.call(command, stdout=output, stderr=subprocess.STDOUT)
    word = "passed" if code == 0 else f"FAILED, kept in {OUT / str(number)}"
    print(f"run {number}: {word} in {clock(time.monotonic() - began)}", flush=True)
    if code:
        for folder in OUT.parent.iterdir():
            # Others are of earlier commands.
            if folder.is_dir() and folder != OUT and folder.stat().st_mtime >= started - 1:
                shutil.copytree(folder, OUT / str(number) / folder.name)
    return code == 0


@contextmanager
def _busy() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def _latency(milliseconds: float) -> Iterator[None]:
    rule = ["dev", "lo", "root", "netem"]
    subprocess.run(["tc", "qdisc", "add", *rule, "delay", f"{milliseconds}ms"], check=True)
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", *rule], check=True)


@contextmanager
def _slow_disk(bytes_per_second: int) -> Iterator[None]:
    """Throttle the disk of this folder for this process and those that it starts."""
    is_v2 = (_CGROUPS / "cgroup.controllers").exists()
    controller = "" if is_v2 else "blkio"
    folder = _CGROUPS / controller / f"di-slow-{os.getpid()}"
    folder.mkdir()
    device = os.stat(".").st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    if is_v2:
        (_CGROUPS / "cgroup.subtree_control").write_text("+io")
        (folder / "io.max").write_text(f"{name} rbps={bytes_per_second} wbps={bytes_per_second}")
    else:
        for way in ("read", "write"):
            rule = folder / f"blkio.throttle.{way}_bps_device"
            rule.write_text(f"{name} {bytes_per_second}")
    before = _CGROUPS / controller / _cgroup(controller) / "cgroup.procs"
    (folder / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        before.write_text(str(os.getpid()))
        # A process that outlives the command keeps it.
        with suppress(OSError):
            folder.rmdir()


def _cgroup(controller: str) -> str:
    """Return the path of this process's group of a controller of cgroup v1; "" is v2's."""
    lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return next(path[1:] for _, names, path in lines if controller in names.split(","))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
