"""The operator, with a recorder of the times for which its event loop was held.

    python -m tools.benchmarks.operator.holds FILE

A task asks to be woken every two milliseconds. When it is woken late, something held the loop: a
line of JSON goes to FILE. A hold is given as processor time of the loop's thread, which a busy
machine does not stretch, beside the time that passed; `where` is what the thread was seen doing
meanwhile, what it did most first: the innermost of our functions and who called it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from di_operator import main as operator

_TICK = 0.002
_WORTH_A_LINE = 0.01
# Seconds without an answer after which the other thread looks what the loop is doing, and then
# again and again.
_LOOK_AFTER = 0.004
_OURS = ("di_operator", "di_api")
_FRAMES = 2
_PLACES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`at` is when it ended, on the monotonic clock; the others are seconds.

    `collector` is how much of `used` the cyclic collector took.
    """

    at: float
    passed: float
    used: float
    collector: float
    where: str


def read(path: Path) -> list[Hold]:
    """The holds recorded so far."""
    return [Hold(**json.loads(line)) for line in path.read_text().splitlines()]


def longest(holds: Iterable[Hold], begin: float, end: float) -> Hold | None:
    """The hold of a span of time that used the most processor time."""
    found = [hold for hold in holds if begin <= hold.at <= end]
    return max(found, key=lambda hold: hold.used, default=None)


class Recorder:
    """Runs in the loop that it watches, and looks at it from another thread."""

    def __init__(self, path: Path) -> None:
        self._output = path.open("a", buffering=1)
        self._asleep = time.monotonic()
        self._seen: Counter[str] = Counter()
        self._collecting = self._collector = 0.0
        self._thread = threading.get_ident()

    async def run(self) -> None:
        """Record until cancelled."""
        threading.Thread(target=self._look, daemon=True).start()
        gc.callbacks.append(self._collect)
        while True:
            self._seen, self._collector = Counter(), 0.0
            self._asleep, used = time.monotonic(), time.thread_time()
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            passed, used = now - self._asleep - _TICK, time.thread_time() - used
            if max(passed, used) > _WORTH_A_LINE:
                self._write(now, passed, used)

    def _write(self, now: float, passed: float, used: float) -> None:
        places = self._seen.most_common(_PLACES)
        hold = Hold(
            at=now,
            passed=round(passed, 4),
            used=round(used, 4),
            collector=round(self._collector, 4),
            where="; ".join(f"{count} x {place}" for place, count in places),
        )
        self._output.write(json.dumps(asdict(hold)) + "\n")

    def _collect(self, phase: str, _: object) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._collector += time.thread_time() - self._collecting

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_AFTER)
            if time.monotonic() - self._asleep > _LOOK_AFTER:
                self._seen[_innermost(sys._current_frames().get(self._thread))] += 1


def _innermost(frame: Any) -> str:
    names: list[str] = []
    while frame is not None and len(names) < _FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OURS):
            names.append(f"{module}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names)


def main(arguments: Sequence[str]) -> None:
    operate = operator.operate

    async def recorded(**parts: Any) -> None:
        recording = asyncio.create_task(Recorder(Path(arguments[0])).run())
        try:
            await operate(**parts)
        finally:
            recording.cancel()

    operator.operate = recorded
    sys.argv = [sys.argv[0], *arguments[1:]]
    operator.main()


if __name__ == "__main__":
    main(sys.argv[1:])
