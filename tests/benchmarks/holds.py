"""The operator, with a recorder of the times for which its event loop was held.

    python -m tests.benchmarks.holds FILE

A task asks to be woken every two milliseconds. When it is woken late, something held the loop: a
line of JSON goes to FILE. A hold is given as processor time of the loop's thread, which a busy
machine does not stretch, beside the time that passed; `where` is what the thread was doing when
the loop had not answered for a while, the innermost of our functions first.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from di_operator import main as operator

_TICK = 0.002
_WORTH_A_LINE = 0.01
# Seconds without an answer after which the other thread looks what the loop is doing.
_LOOK_AFTER = 0.008
_OURS = ("di_operator", "di_api")
_FRAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """`at` is when it ended, on the monotonic clock; the others are seconds."""

    at: float
    passed: float
    used: float
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
        self._where = ""
        self._thread = threading.get_ident()

    async def run(self) -> None:
        """Record until cancelled."""
        threading.Thread(target=self._look, daemon=True).start()
        while True:
            self._where = ""
            self._asleep, used = time.monotonic(), time.thread_time()
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            passed, used = now - self._asleep - _TICK, time.thread_time() - used
            if max(passed, used) > _WORTH_A_LINE:
                hold = Hold(at=now, passed=round(passed, 4), used=round(used, 4), where=self._where)
                self._output.write(json.dumps(asdict(hold)) + "\n")

    def _look(self) -> None:
        while True:
            time.sleep(_LOOK_AFTER)
            if not self._where and time.monotonic() - self._asleep > _LOOK_AFTER:
                self._where = _innermost(sys._current_frames().get(self._thread))


def _innermost(frame: Any) -> str:
    names: list[str] = []
    while frame is not None and len(names) < _FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OURS):
            names.append(f"{module}.{frame.f_code.co_name}:{frame.f_lineno}")
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
