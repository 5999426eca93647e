"""A training as the program tells of it: timed, reported, asked to stop, saved.

Nothing here waits for the network, or fails the training.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from di_orchestrator.errors import BadReport
from di_orchestrator.job import Job
from di_orchestrator.server.exchange import Clock
from di_orchestrator.termination import Leaving, seconds_since_start
from di_orchestrator.training_run.advice import wanted_collectors
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_orchestrator.training_run.report import keyed
from di_orchestrator.training_run.rescaling import Rescaling
from di_orchestrator.training_run.sender import Sender
from di_orchestrator.training_run.stopwatch import Lap, Observations, Stopwatch, Window
from di_orchestrator.warnings_once import Warnings

log = logging.getLogger("di_orchestrator")

FLUSH_SECONDS = 5.0
"""How long the end of a training waits for its last report, and for collectors asked for."""
CONCLUSIVE_LAPS = 12
CONCLUSIVE_SECONDS = 8.0
"""Of so many iterations, and so long after the number of collectors changed, advice is given: a pod
starts, or ends, and then it is measured what came of it."""
STARTING_SECONDS = 120.0
"""For so long after a change, collectors that are still missing are taken for starting."""

T = TypeVar("T")


class Training:
    """See `di_orchestrator.training`, which makes one. For one thread, but where it is said.

    Attributes:
        checkpoint: where checkpoints are kept, whether one is due, what to go on from.
        learners: how many there are.
        samples_from: the task that brings samples.
    """

    def __init__(
        self,
        job: Job,
        sender: Sender | None,
        checkpoint: Checkpoints,
        *,
        known: Mapping[str, object],
        learners: int | None = None,
        nodes: int | None = None,
        observations: list[dict[str, Any]] | None = None,
        samples_from: str = "collector",
        rescaling: Rescaling | None = None,
        is_test: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.checkpoint = checkpoint
        self.learners = learners or _learners(job)
        self.samples_from = samples_from
        self._rescaling = rescaling
        self._job = job
        self._sender = sender
        self._nodes = nodes if nodes is not None or self.learners > 1 else 1
        self._is_test = is_test
        self._clock = clock
        self._leaving = Leaving(checkpoint.ask)
        self._stopwatch = Stopwatch(clock)
        self._window = Window()
        self._observations = Observations(observations)
        self._knows_waiting = False
        self._env_steps: deque[tuple[float, float]] = deque(maxlen=64)
        self._stale = 0
        self._collectors = job.count(samples_from)
        self._is_told_collectors = False
        self._has_looked = False
        self._granted: int | None = None
        self._granted_at = clock()
        self._changed = clock()
        self._values = keyed({"learners": self.learners, **known})
        if job.node_kind:
            self._values["kind"] = job.node_kind
        self._warnings = Warnings()

    # ------------------------------------------------------------ its life
    def __enter__(self) -> Training:
        self._leaving.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (lap := self._stopwatch.stop()) is not None:
            self._count(lap)
        self._leaving.restore()
        if self._rescaling is not None and self._rescaling.is_settled(FLUSH_SECONDS):
            self._settle(self._rescaling.take())
        if self._sender is not None:
            self._tell()
            if not self._sender.close(FLUSH_SECONDS):
                log.warning("the last report was not taken within %g s", FLUSH_SECONDS)

    @property
    def stopping(self) -> bool:
        """Whether the pod is to leave: preempted, scaled down, its time is over. For any thread.

        SIGTERM says so. Save what is to be kept (`checkpoint.is_due` is true once) and end; the
        kubelet waits for the grace period of the pod.
        """
        return self._leaving.is_asked

    @property
    def leaving(self) -> threading.Event:
        """Set when `stopping` becomes true, for threads that wait."""
        return self._leaving.event

    # ------------------------------------------------------------ what it does
    def iteration(self, samples: int, *, stale: int = 0) -> _Working:
        """One iteration of training begins.

        As `with run.iteration(samples=n):` around the work, the time outside is waiting. As a
        call, the iteration lasts until the next one, and waiting is what `waiting()` was around.

        Args:
            samples: that this process trains on.
            stale: samples that were thrown away since the last one, too old to train on.
        """
        if (lap := self._stopwatch.begin(samples, stale)) is not None:
            self._count(lap)
        self._stale += stale
        return _Working(self)

    def iterations(self, batches: Iterable[T], samples: Callable[[T], int] = len) -> Iterator[T]:  # type: ignore[assignment]
        """The batches, each trained on in an iteration; getting the next one is waiting.

        Args:
            samples: how many there are in a batch.
        """
        for batch in batches:
            with self.iteration(samples(batch)):
                yield batch

    def worked(self) -> None:
        """The work of this iteration is done: until the next begins, it waits."""
        self._knows_waiting = True
        self._stopwatch.end()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what waits for samples within an iteration."""
        began = self._clock()
        try:
            yield
        finally:
            self._knows_waiting = True
            self._stopwatch.waited(self._clock() - began)

    @contextmanager
    def synchronizing(self) -> Iterator[None]:
        """Around the exchange with other learners within an iteration.

        With several learners the allocator learns from iterations only if this is measured.
        """
        began = self._clock()
        try:
            yield
        finally:
            self._stopwatch.synchronized(self._clock() - began)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Around what the program does in place of steps, such as `evaluation` or `saving`."""
        self.report(phase=name)
        try:
            yield
        finally:
            self.report(phase="")

    # ------------------------------------------------------------ what it tells
    def report(
        self, step: float | None = None, *, samples: int | None = None, **more: object
    ) -> None:
        """Tell how far the training is; sent in its turn, at most one report a second.

        A report that makes no sense is a warning, said once, and not sent; with `DI_TEST=1` in the
        environment it raises.

        Args:
            step: how far the program is.
            samples: with it, an iteration on so many samples ends here: for loops that call nothing
                but this.
            more: the other keys that di-server knows, in snake case (`env_steps`, `policy_lag`,
                `stale_dropped`, `queue_depth`, `collectors`, ...), and whatever else is to stand in
                `status.profilings`. With other `learners` than before, what is measured from now on
                is that of so many.

        Raises:
            BadReport: in the test mode; each fault has its path.
        """
        if samples is not None:
            self.iteration(samples)
        try:
            said = keyed({**more, **({} if step is None else {"step": step})})
        except BadReport as error:
            if self._is_test:
                raise
            for fault in error.faults:
                self._warnings.say(f"a report was not sent: {fault}")
            return
        self._values.update(said)
        if "envSteps" in said:
            self._env_steps.append((self._clock(), float(said["envSteps"] or 0)))
        if isinstance(said.get("collectors"), int):
            self.now_collects(said["collectors"])
        if isinstance(said.get("learners"), int) and said["learners"] != self.learners:
            self._now_learns(said["learners"])
        self._tell()

    def save(self, write: Callable[[Path], object], *, step: int | None = None) -> bool:
        """Have a checkpoint written (see `Checkpoints.save`), and tell the job its step.

        Args:
            step: the one that was reported last, if none is given.

        Raises:
            ValueError: no step is known.
        """
        found = step if step is not None else self._values.get("step", self._values.get("envSteps"))
        if found is None:
            raise ValueError("a checkpoint is of a step: give one, or report one before")
        if not self.checkpoint.save(int(found), write):
            return False
        self._tell()
        return True

    # ------------------------------------------------------------ what it says back
    @property
    def observations(self) -> list[dict[str, Any]]:
        """What was measured, for the job's checkpoint and `training(observations=)`."""
        return self._observations.raw()

    @property
    def batch_size(self) -> int | None:
        """Samples that all learners should train on between two updates, as the allocator advises.

        With the replicas that the job has now, by its reports: for jobs that say `max_batch_size`.
        The process that reports knows it, after its first report; None: there is no advice.
        """
        return None if self._sender is None else self._sender.advised

    @property
    def waiting_share(self) -> float | None:
        """The share of the last iterations in which it waited for samples; None: not measured."""
        return self._window.waiting if self._knows_waiting else None

    @property
    def stale_share(self) -> float:
        """The share of the samples of the last iterations that were thrown away, too old."""
        return self._window.stale

    @property
    def collectors(self) -> int | None:
        """How many there are to be, as far as this program knows; None: it does not."""
        return self._collectors

    def now_collects(self, collectors: int) -> None:
        """There are so many collectors from now on; what was measured with others is forgotten."""
        self._is_told_collectors = True
        if collectors != self._collectors:
            self._measure_anew(collectors)

    def rescale(self, *, least: int = 1, most: int | None = None) -> int | None:
        """Have as many collectors as `advise` says; to be called in each iteration, never waits.

        di-server is asked from a thread: first how many there are to be, which others may have
        changed, as may this program before it was started again in its pod. Of a number that it
        refuses (past a bound, which it knows) half the change is tried. After an answer, or a
        refusal, it is measured anew. No more are asked for while some are missing, by
        `report(collectors=)`, that were granted within the last two minutes.

        Returns how many there are to be, once di-server has said so; else None.
        """
        if self._rescaling is None:
            return None
        if self._rescaling.is_asking:
            if not self._rescaling.is_settled():
                return None
            granted = self._rescaling.take()
            self._settle(granted)
            return granted
        now, wanted = self._collectors, self.advise(least=least, most=most)
        if wanted is None and not self._has_looked:
            self._rescaling.look()
        self._has_looked = True
        if now is None or wanted is None or (wanted > now and self._are_starting(now)):
            return None
        self._rescaling.ask(now, wanted)
        return None

    def _are_starting(self, now: int) -> bool:
        if self._granted is None or now >= self._granted:
            return False
        return self._clock() - self._granted_at < STARTING_SECONDS

    def _settle(self, granted: int | None) -> None:
        if granted is not None:
            self._granted, self._granted_at = granted, self._clock()
            self._is_told_collectors = True
        self._measure_anew(granted)

    def _measure_anew(self, collectors: int | None) -> None:
        self._collectors = self._collectors if collectors is None else collectors
        self._changed = self._clock()
        self._window.clear()

    def advise(self, *, least: int = 1, most: int | None = None) -> int | None:
        """How many collectors would keep the learner busy without feeding it stale samples.

        By `wanted_collectors`, of the last iterations. None: as many as there are, or it is too
        early to say, or not known how many there are (`report(collectors=)`, `di.scale`, or those
        of the task `samples_from` when the pod started), or waiting was not measured.
        """
        collectors, waiting = self._collectors, self.waiting_share
        if collectors is None or waiting is None:
            return None
        if len(self._window) < CONCLUSIVE_LAPS:
            return None
        if self._clock() - self._changed < CONCLUSIVE_SECONDS:
            return None
        return wanted_collectors(
            collectors, waiting=waiting, stale=self._window.stale, least=least, most=most
        )

    # ------------------------------------------------------------ inside
    def _now_learns(self, learners: int) -> None:
        """There are so many learners; the iteration under way was begun with others."""
        self.learners = learners
        self._stopwatch.drop()
        self._window.clear()

    def _count(self, lap: Lap) -> None:
        self._window.add(lap)
        if self.checkpoint.restored_step is not None and "restoreSeconds" not in self._values:
            self._values["restoreSeconds"] = round(seconds_since_start(), 2)
        if self._nodes is not None:
            kind = self._job.node_kind
            self._observations.add(lap, nodes=self._nodes, replicas=self.learners, kind=kind)
        if lap.samples and "batchSize" not in self._values:
            self._values["batchSize"] = self.learners * lap.samples

    def _tell(self) -> None:
        if self._sender is not None:
            self._sender.tell({**self._values, **self._measured()})

    def _measured(self) -> dict[str, Any]:
        found = {
            "reportedAt": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "trainStepsPerSec": _rounded(self._window.rate),
            "learnerWaitFrac": _rounded(self.waiting_share),
            "envStepsPerSec": _rounded(_rate(self._env_steps)),
            "observations": self._observations.raw() or None,
            "checkpointStep": self.checkpoint.saved_step,
            "collectors": self._collectors if self._is_told_collectors else None,
        }
        if self._stale:
            found["staleDropped"], found["staleFrac"] = self._stale, _rounded(self._window.stale)
        # What the program says itself goes before.
        return {
            key: value
            for key, value in found.items()
            if value is not None and key not in self._values
        }


class _Working:
    """The work of one iteration."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._training.worked()


def _learners(job: Job) -> int:
    if not job.is_inside:
        return 1
    group = job.process_group
    if group is not None and group.size:
        return group.size
    return max(job.count(job.task) or 0, 1)


def _rate(points: deque[tuple[float, float]]) -> float | None:
    if len(points) < 2 or points[-1][0] <= points[0][0] or points[-1][1] < points[0][1]:
        return None
    return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
