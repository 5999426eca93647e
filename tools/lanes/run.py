"""Running lanes, some at a time, with their progress."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tools.lanes import progress
from tools.lanes.lane import Lane, Outcome, outcome
from tools.lanes.progress import clock

_CAUSES: Final = 20
"""Messages of failed tests that are shown for a lane."""
_TAIL: Final = 4096
_PERCENT: Final = re.compile(rb"\[ *(\d+)%\]")
_FILE: Final = re.compile(rb"^(tests/\S+\.py)", re.MULTILINE)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does, and Ctrl-C in the background too: what a shell starts
    there ignores SIGINT, and so would all lanes.
    """
    was = signal.signal(signal.SIGINT, signal.default_int_handler)
    had = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)
        signal.signal(signal.SIGTERM, had)


@dataclass(slots=True)
class Runner:
    """Runs lanes on one interpreter and keeps what they print.

    Attributes:
        python: the interpreter.
        out: the folder for logs, reports and what failed tests left; exists.
        options: further arguments of each pytest.
        variables: further environment variables of each lane.
        measured: whether branch coverage of each pytest is collected, into ``out``.
        at_once: how many lanes run side by side.
        show: prints a line.
        on_end: called after each lane with all that have ended, such as to write a page.
    """

    python: Path
    out: Path
    options: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    measured: bool = False
    at_once: int = 1
    show: Callable[[str], None] = print
    on_end: Callable[[Sequence[Outcome]], None] = lambda ended: None
    _running: dict[str, Lane] = field(default_factory=dict)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, lanes: Sequence[Lane]) -> list[Outcome]:
        """Run the lanes in this order; returns how they ended, in the order of their ends.

        After Ctrl-C, or SIGTERM in the context of `ended_by_signals`, no other lane starts, and
        all processes of the running ones get a SIGINT, at each further signal again.
        """
        ended: list[Outcome] = []
        with ThreadPoolExecutor(self.at_once) as pool, self._progress(lanes) as tick:
            running = {pool.submit(self._run, lane) for lane in lanes}
            try:
                while running:
                    done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                    for each in done:
                        ended.append(each.result())
                        self._tell(ended[-1])
                        self.on_end(ended)
                    tick(len(ended))
            except KeyboardInterrupt:
                self.show("interrupted: waiting for the running lanes to remove what they started")
                self._interrupt(running)
                raise
        return ended

    def _interrupt(self, running: Collection[Future[Outcome]]) -> None:
        for each in running:
            each.cancel()
        while True:
            for process in [*self._processes.values()]:
                with suppress(ProcessLookupError):  # ended meanwhile
                    os.killpg(process.pid, signal.SIGINT)
            try:
                wait(running)
                return
            except KeyboardInterrupt:
                continue

    def environment(self, lane: Lane) -> Mapping[str, str]:
        """The environment variables of a lane's process."""
        measured = {"COVERAGE_FILE": str(self.out.absolute() / f"coverage.{lane.name}")}
        return {
            **os.environ,
            "DI_FAILURES": str(self.out.absolute() / "failures" / lane.name),
            "PYTHONUNBUFFERED": "1",
            **self.variables,
            **(measured if self.measured else {}),
        }

    def command(self, lane: Lane) -> list[str]:
        """The command of a lane's process."""
        if not lane.is_pytest:
            return [str(self.python), *lane.arguments]
        measured = ["-m", "coverage", "run", "--parallel-mode"] if self.measured else []
        report = f"--junitxml={self._report(lane)}"
        return [str(self.python), *measured, *lane.arguments, report, *self.options]

    def _run(self, lane: Lane) -> Outcome:
        started = time.monotonic()
        self._running[lane.name] = lane
        self._report(lane).unlink(missing_ok=True)
        with self._log(lane).open("wb") as log:
            process = subprocess.Popen(
                self.command(lane),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment(lane),
                # The lane's own, for a signal to all of its processes.
                process_group=0,
            )
            self._processes[lane.name] = process
            code = process.wait()
        del self._running[lane.name], self._processes[lane.name]
        seconds = time.monotonic() - started
        return outcome(lane, code, seconds, self._log(lane), self._report(lane))

    def _log(self, lane: Lane) -> Path:
        return self.out / f"{lane.name}.log"

    def _report(self, lane: Lane) -> Path:
        return self.out / f"{lane.name}.xml"

    def _tell(self, ended: Outcome) -> None:
        tests = "" if ended.tests is None else f", {ended.tests} tests"
        word = "passed" if ended.passed else "FAILED"
        # A process that was killed, or pytest before its first test, names no failed test.
        code = "" if ended.passed or ended.failed else f", exit code {ended.code}"
        self.show(f"{word} in {clock(ended.seconds)}: {ended.lane.name}{tests}{code}")
        for score in ended.scores:
            self.show(f"  {score}")
        # A fixture that fails for a hundred tests is one failure.
        causes: dict[str, list[str]] = {}
        for test in ended.failed:
            causes.setdefault(test.message, []).append(test.name)
        for message, (first, *others) in [*causes.items()][:_CAUSES]:
            further = f" (and {len(others)} more tests)" if others else ""
            self.show(f"  {first}{further}: {message}")
        if len(causes) > _CAUSES:
            self.show(f"  and {len(causes) - _CAUSES} other causes, in {ended.log}")

    @contextmanager
    def _progress(self, lanes: Sequence[Lane]) -> Iterator[Callable[[int], None]]:
        """A function to call often: it shows where the running lanes are."""
        console, began, last = Console(), time.monotonic(), time.monotonic()

        def states(ended: int) -> list[tuple[str, str]]:
            return [
                (clock(time.monotonic() - began), f"{ended} of {len(lanes)} lanes ended"),
                *((lane.name, where(self._log(lane))) for lane in [*self._running.values()]),
            ]

        if console.is_terminal:
            with Live(console=console, transient=True, refresh_per_second=2) as live:

                def draw(ended: int) -> None:
                    table = Table.grid(padding=(0, 2))
                    for row in states(ended):
                        table.add_row(*row)
                    live.update(table)

                shown, self.show = self.show, live.console.print
                try:
                    yield draw
                finally:
                    self.show = shown
            return

        def line(ended: int) -> None:
            nonlocal last
            if time.monotonic() - last >= progress.EVERY_SECONDS:
                last = time.monotonic()
                self.show("; ".join(f"{name} {text}" for name, text in states(ended)))

        yield line


def where(log: Path) -> str:
    """How far the program is that writes this log, such as ``43% tests/unit/test_a.py``."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            tail = file.read()
    except OSError:
        return ""
    if steps := progress.LINE.findall(tail):
        return " ".join(each.decode(errors="replace") for each in steps[-1])
    found = [pattern.findall(tail)[-1:] for pattern in (_PERCENT, _FILE)]
    (percent, name) = (each[0].decode() if each else "" for each in found)
    return f"{percent + '% ' if percent else ''}{name}"
