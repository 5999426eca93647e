"""How long iterations take, and how much of that is waiting. Pure: the clock is given."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from di_orchestrator.server.exchange import Clock
from di_orchestrator.training_run.report import MAX_OBSERVATIONS

LAPS = 64
"""Iterations that rates and shares are taken over, the last ones."""


@dataclass(frozen=True)
class Lap:
    """One iteration, from its beginning to that of the next.

    Attributes:
        samples: that this process trained on.
        seconds: of all of it.
        waited: seconds of these in which there was nothing to train on.
        synchronized: seconds of these for the other learners; None: not measured.
        stale: samples that were thrown away since the one before.
    """

    samples: int
    seconds: float
    waited: float
    synchronized: float | None = None
    stale: int = 0

    @property
    def worked(self) -> float:
        """Seconds without the waiting."""
        return max(self.seconds - self.waited, 0.0)


class Stopwatch:
    """Told when an iteration begins and when its work is done; what is between is waiting."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: int | None = None
        self._stale = 0
        self._began = 0.0
        self._idle_since: float | None = None
        self._waited = 0.0
        self._synchronized: float | None = None

    def begin(self, samples: int, stale: int = 0) -> Lap | None:
        """An iteration begins; returns the one before, which is over by that."""
        lap = self._lap()
        self._samples, self._stale, self._began = samples, stale, self._clock()
        return lap

    def end(self) -> None:
        """The work of this iteration is done; until the next begins, the program waits."""
        if self._samples is not None and self._idle_since is None:
            self._idle_since = self._clock()

    def stop(self) -> Lap | None:
        """The iteration that was begun last; None if its work is not known to be done."""
        return None if self._idle_since is None else self._lap()

    def drop(self) -> None:
        """The iteration that was begun last does not count."""
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
        """So much of the work was waiting after all."""
        if self._samples is not None:
            self._waited += seconds

    def synchronized(self, seconds: float) -> None:
        """So much of the work was exchanging gradients, or waiting for other learners."""
        if self._samples is not None:
            self._synchronized = (self._synchronized or 0.0) + seconds


class Window:
    """The last iterations, and what they say of the program's speed."""

    def __init__(self) -> None:
        self._laps: deque[Lap] = deque(maxlen=LAPS)

    def __len__(self) -> int:
        return len(self._laps)

    def add(self, lap: Lap) -> None:
        """One more."""
        self._laps.append(lap)

    def clear(self) -> None:
        """What was measured is that of another number of collectors."""
        self._laps.clear()

    @property
    def seconds(self) -> float:
        """That the iterations took."""
        return math.fsum(lap.seconds for lap in self._laps)

    @property
    def waiting(self) -> float | None:
        """The share of the time in which there was nothing to train on; None: not measured."""
        seconds = self.seconds
        if not seconds:
            return None
        return min(math.fsum(lap.waited for lap in self._laps) / seconds, 1.0)

    @property
    def stale(self) -> float:
        """The share of the samples that were thrown away."""
        stale = sum(lap.stale for lap in self._laps)
        brought = stale + sum(lap.samples for lap in self._laps)
        return stale / brought if brought else 0.0

    @property
    def rate(self) -> float | None:
        """Iterations a second; None: not measured."""
        seconds = self.seconds
        return len(self._laps) / seconds if seconds else None


class Observations:
    """What the allocator fits a job's speed to: mean times by how the learners ran.

    They are the job's to keep: `raw` goes into its checkpoint and back.
    """

    def __init__(self, raw: list[dict[str, Any]] | None = None) -> None:
        self._means: OrderedDict[tuple[Any, ...], tuple[float, float, int]] = OrderedDict()
        for one in raw or ():
            key = (one["nodes"], one["replicas"], one["samples"], one.get("kind", ""))
            self._means[key] = (one["computing"], one["iteration"], LAPS)

    def add(self, lap: Lap, *, nodes: int, replicas: int, kind: str) -> None:
        """One more iteration.

        Without waiting, which more collectors would end; with several learners the time for
        each other counts, so it has to be known.
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
        """As a report has them, those measured last at the end."""
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


def _rounded(seconds: float) -> float:
    return min(max(float(f"{seconds:.4g}"), 1e-9), 1e6)
