"""Which targets of a run have ended, and how long the others take at most."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tools.lanes.progress import State


@dataclass(slots=True, kw_only=True)
class Turns:
    """The targets of a run, some of them side by side, each for so many seconds at most.

    Attributes:
        targets: what waits for a free lane, in this order.
        aside: what runs beside the lanes from the beginning.
        seconds: of each.
        lanes: targets side by side.
        clock: seconds that only grow.
    """

    targets: Sequence[str]
    aside: Sequence[str]
    seconds: float
    lanes: int
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _started: dict[str, float] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def start(self, name: str) -> None:
        """Count the seconds of this one from now on."""
        self._started[name] = self.clock()

    def end(self, name: str) -> None:
        """Count this one as done."""
        self._ended.add(name)

    def state(self) -> State:
        """How far the run is: by time, as each target has its own."""
        left = self._left()
        elapsed = self.clock() - self._began
        total = len(self.targets) + len(self.aside)
        running = [name for name in [*self._started] if name not in self._ended]
        return State(
            share=elapsed / (elapsed + left) if elapsed + left else 1.0,
            text=", ".join([f"{len(self._ended)} of {total} targets ended", *running]),
            left=left,
        )

    def _left(self) -> float:
        """Seconds until the last one ends, if each takes its whole time."""
        beside = [self._of(name) for name in self.aside if name not in self._ended]
        waiting = [self._of(name) for name in self.targets if name not in self._ended]
        ends = [0.0] * self.lanes
        for seconds in waiting:
            heapq.heapreplace(ends, ends[0] + seconds)
        return max([*beside, *ends])

    def _of(self, name: str) -> float:
        started = self._started.get(name)
        return self.seconds if started is None else max(0.0, started + self.seconds - self.clock())
