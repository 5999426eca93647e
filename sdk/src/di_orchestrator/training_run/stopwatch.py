"""Durations of iterations, and their share of waiting. Pure: the clock is passed in."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from di_orchestrator.server.exchange import Clock
from di_orchestrator.training_run.report import MAX_OBSERVATIONS

LAPS = 64
"""Number of last iterations for rates and shares."""


@dataclass(frozen=True)
class Lap:
    """One iteration, from its beginning to that of the next.

    Attributes:
        samples: number that this process trained on.
        seconds: of the whole iteration.
        waited: seconds of these without samples to train on.
        synchronized: seconds of these for other learners; None: not measured.
        stale: samples discarded since the previous iteration.
    """

    samples: int
    seconds: float
    waited: float
    synchronized: float | None = None
    stale: int = 0

    @property
    def worked(self) -> float:
        """Return the seconds without waiting."""
        return max(self.seconds - self.waited, 0.0)


class Stopwatch:
    """Measures iterations: the time between the end of one's work and the next beginning is
    waiting.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: int | None = None
        self._stale = 0
        self._began = 0.0
        self._idle_since: float | None = None
        self._waited = 0.0
        self._synchronized: float | None = None

    def begin(self, samples: int, stale: int = 0) -> Lap | None:
        """Begin an iteration; return the previous one, which ends with that."""
        lap = self._lap()
        self._samples, self._stale, self._began = samples, stale, self._clock()
        return lap

    def end(self) -> None:
        """End the work of this iteration; until the next begins, the program waits."""
        if self._samples is not None and self._idle_since is None:
            self._idle_since = self._clock()

    def stop(self) -> Lap | None:
        """Return the last iteration; None if the end of its work is unknown."""
        return None if self._idle_since is None else self._lap()

    def drop(self) -> None:
        """Discard the last iteration."""
        self._lap()

    def _lap(self) -> Lap | None:
        if self._samples is None:
            return None
        now = self._clock()
        if self._idle_since is not None:
            self._waited += now - self._idle_since
        lap = Lap(self._samples, now - self._began, self._waited, self._synchronized, self._stale)
        self._samples, self._idle_since = None, None
        self._waited, self._synchronized = 0.0, None
        return lap

    def waited(self, seconds: float) -> None:
        """Count `seconds` of the work as waiting."""
        if self._samples is not None:
            self._waited += seconds

    def synchronized(self, seconds: float) -> None:
        """Count `seconds` of the work as exchanging gradients, or waiting for other learners."""
        if self._samples is not None:
            self._synchronized = (self._synchronized or 0.0) + seconds


class Window:
    """The last iterations, and the program's speed computed from them."""

    def __init__(self) -> None:
        self._laps: deque[Lap] = deque(maxlen=LAPS)

    def __len__(self) -> int:
        return len(self._laps)

    def add(self, lap: Lap) -> None:
        """Add an iteration."""
        self._laps.append(lap)

    def clear(self) -> None:
        """Discard all, because they were measured with another number of collectors."""
        self._laps.clear()

    @property
    def seconds(self) -> float:
        """Return the total duration of the iterations."""
        return math.fsum(lap.seconds for lap in self._laps)

    @property
    def waiting(self) -> float | None:
        """Return the share of time without samples to train on; None: not measured."""
        seconds = self.seconds
        if not seconds:
            return None
        return min(math.fsum(lap.waited for lap in self._laps) / seconds, 1.0)

    @property
    def stale(self) -> float:
        """Return the share of discarded samples."""
        stale = sum(lap.stale for lap in self._laps)
        brought = stale + sum(lap.samples for lap in self._laps)
        return stale / brought if brought else 0.0

    @property
    def rate(self) -> float | None:
        """Return iterations per second; None: not measured."""
        seconds = self.seconds
        return len(self._laps) / seconds if seconds else None


class Observations:
    """Observations for the allocator's speed model: mean times by number of learners and nodes.

    The job has to store them: `raw` goes into its checkpoint and back.
    """

    def __init__(self, raw: list[dict[str, Any]] | None = None) -> None:
        self._means: OrderedDict[tuple[Any, ...], tuple[float, float, int]] = OrderedDict()
        for one in raw or ():
            key = (one["nodes"], one["replicas"], one["samples"], one.get("kind", ""))
            self._means[key] = (one["computing"], one["iteration"], LAPS)

    def add(self, lap: Lap, *, nodes: int, replicas: int, kind: str) -> None:
        """Add an iteration.

        Waiting does not count, because more collectors would end it. With several learners the
        synchronization counts, so it has to be known.
        """
        if not lap.samples or not lap.worked or (replicas > 1 and lap.synchronized is None):
            return
        key = (nodes, replicas, lap.samples, kind)
        computing, iteration, count = self._means.pop(key, (0.0, 0.0, 0))
        count = min(count + 1, LAPS)
        worked = max(lap.worked - (lap.synchronized or 0.0), 1e-9)
        self._means[key] = (
            computing + (worked - computing) / count,
            iteration + (lap.worked - iteration) / count,
            count,
        )
        if len(self._means) > MAX_OBSERVATIONS:
            self._means.popitem(last=False)

    def raw(self) -> list[dict[str, Any]]:
        """Return them in the form of a report, the latest last."""
        return [
            {
                "nodes": nodes,
                "replicas": replicas,
                "samples": samples,
                "computing": _rounded(computing),
                "iteration": _rounded(iteration),
                **({"kind": kind} if kind else {}),
            }
            for (nodes, replicas, samples, kind), (computing, iteration, _) in self._means.items()
        ]


def rate_of(points: Sequence[tuple[float, float]]) -> float | None:
    """Return how much a count grows per second; None: not measured, or it became smaller.

    Args:
        points: time in seconds and count, in order of time.
    """
    if len(points) < 2 or points[-1][0] <= points[0][0] or points[-1][1] < points[0][1]:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def _rounded(seconds: float) -> float:
    return min(max(float(f"{seconds:.4g}"), 1e-9), 1e6)
