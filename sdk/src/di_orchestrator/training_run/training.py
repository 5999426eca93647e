"""A training: measures and reports the program's progress, and saves its checkpoints.

Nothing in this module waits for the network, or fails the training.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
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
from di_orchestrator.training_run.gpus import IdleGpus
from di_orchestrator.training_run.group import Group
from di_orchestrator.training_run.heartbeats import Heartbeats
from di_orchestrator.training_run.place import Place
from di_orchestrator.training_run.report import checked, keyed
from di_orchestrator.training_run.rescaling import Rescaling
from di_orchestrator.training_run.sender import Sender
from di_orchestrator.training_run.stopwatch import Lap, Observations, Stopwatch, Window, rate_of
from di_orchestrator.warnings_once import Warnings

log = logging.getLogger("di_orchestrator")

FLUSH_SECONDS = 5.0
"""Seconds that the end of a training waits for its last report, and for requested collectors."""
CONCLUSIVE_LAPS = 12
CONCLUSIVE_SECONDS = 8.0
"""Minimum iterations, and seconds since the last change of collectors, before advice is given: a
pod starts or ends, and then its effect is measured.
"""
STARTING_SECONDS = 120.0
"""Seconds after a change for which missing collectors count as starting."""

T = TypeVar("T")


class Training:
    """See `di_orchestrator.training`, which creates one. For one thread, except where noted.

    Attributes:
        checkpoint: where checkpoints are stored, whether one is due, what to restore.
        learners: number of learners.
        samples_from: the task that delivers samples.
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
        heartbeats: Heartbeats | None = None,
        gpus: IdleGpus | None = None,
        is_test: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self.checkpoint = checkpoint
        self.learners = learners or _learners(job)
        self.samples_from = samples_from
        self._rescaling = rescaling
        self._heartbeats = heartbeats or Heartbeats(None, clock=clock)
        self._gpus = gpus
        self._job = job
        self._sender = sender
        self._nodes = nodes
        self._batch: int | None = None
        self._told: set[str] = set()
        self._is_test = is_test
        self._clock = clock
        self._leaving = Leaving(checkpoint.ask)
        self._group = Group(job, Place.of(job), checkpoint, self._leaving)
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
        self._group.join()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (lap := self._stopwatch.stop()) is not None:
            self._count(lap)
        self._heartbeats.close()
        if self._gpus is not None:
            self._gpus.close()
        try:
            self._end_reports()
            self._group.end(has_failed=error is not None)
        finally:
            self._leaving.restore()

    def _end_reports(self) -> None:
        if self._rescaling is not None and self._rescaling.is_settled(FLUSH_SECONDS):
            self._settle(self._rescaling.take())
        if self._sender is not None:
            self._tell()
            if not self._sender.close(FLUSH_SECONDS):
                log.warning("the last report was not taken within %g s", FLUSH_SECONDS)

    @property
    def stopping(self) -> bool:
        """Return whether the pod has to leave: preempted, scaled down, or out of time. Thread-safe.

        SIGTERM sets it. Save what has to be kept (`checkpoint.is_due` is true once) and end; the
        kubelet waits for the grace period of the pod. In a process group of fixed size all
        processes get the answer of the first one, and stop together.
        """
        self._heartbeats.beat()
        return self._group.stops

    @property
    def leaving(self) -> threading.Event:
        """Event that is set when `stopping` becomes true, for threads that wait."""
        return self._leaving.event

    # ------------------------------------------------------------ what it does
    def iteration(self, samples: int, *, stale: int = 0) -> AbstractContextManager[None]:
        """Begin one iteration of training.

        With `with run.iteration(samples=n):` around the work, the time outside is waiting. As a
        call, the iteration lasts until the next one, and only time inside `waiting()` is waiting.

        Args:
            samples: number that this process trains on.
            stale: samples that were discarded as too old since the last iteration.
        """
        self._heartbeats.beat()
        if (lap := self._stopwatch.begin(samples, stale)) is not None:
            self._count(lap)
        self._stale += stale
        return _Working(self)

    def iterations(self, batches: Iterable[T], samples: Callable[[T], int] = len) -> Iterator[T]:  # type: ignore[assignment]
        """Yield the batches, each trained on in an iteration; the time to get the next one is
        waiting.

        Args:
            samples: returns the number of samples in a batch.
        """
        for batch in batches:
            with self.iteration(samples(batch)):
                yield batch

    def worked(self) -> None:
        """End the work of this iteration: until the next begins, the program waits."""
        self._knows_waiting = True
        self._stopwatch.end()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context for code that waits for samples within an iteration."""
        began = self._clock()
        try:
            yield
        finally:
            self._knows_waiting = True
            self._stopwatch.waited(self._clock() - began)

    @contextmanager
    def synchronizing(self) -> Iterator[None]:
        """Context for the exchange with other learners within an iteration.

        With several learners the allocator can use iterations only if this is measured.
        """
        began = self._clock()
        try:
            yield
        finally:
            self._stopwatch.synchronized(self._clock() - began)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Context for work other than steps, such as `evaluation` or `saving`."""
        self.report(phase=name)
        try:
            with self._heartbeats.busy():
                yield
        finally:
            self.report(phase="")

    # ------------------------------------------------------------ what it reports
    def report(
        self, step: float | None = None, *, samples: int | None = None, **more: object
    ) -> None:
        """Report the progress of the training; at most one report is sent per second.

        An invalid value causes a warning, once, and is not sent; with `DI_TEST=1` in the
        environment it raises.

        Args:
            step: progress of the program.
            samples: if given, an iteration on so many samples ends here: for loops with no other
                call.
            more: other keys of di-server, in snake case (`env_steps`, `policy_lag`,
                `stale_dropped`, `queue_depth`, `collectors`, ...), and any further keys for
                `status.profilings`. With another number of `learners` than before, later
                measurements are for that number.

        Raises:
            BadReport: in test mode; each fault has its path.
        """
        self._heartbeats.beat()
        if samples is not None:
            self.iteration(samples)
        said, faults = checked({**more, **({} if step is None else {"step": step})})
        if faults and self._is_test:
            raise BadReport(tuple(faults))
        for fault in faults:
            self._warnings.say(f"a value was not reported: {fault}")
        self._values.update(said)
        if isinstance(said.get("collectors"), int):
            self.now_collects(said["collectors"])
        if isinstance(said.get("learners"), int) and said["learners"] != self.learners:
            self._now_learns(said["learners"])
        if "envSteps" in said:
            self._env_steps.append((self._clock(), float(said["envSteps"] or 0)))
        self._tell()

    def save(
        self,
        write: Callable[[Path], object],
        *,
        step: int | None = None,
        shards: bool = False,
    ) -> bool:
        """Save a checkpoint (see `Checkpoints.save`), and report its step.

        In a process group every process calls it, and only the first one calls `write`.

        Args:
            step: by default the last reported one.
            shards: every process of the group calls `write`, with the same folder. It is a
                checkpoint when all have returned, or removed when one has failed.

        Returns whether it was saved, or, in the other processes of a group, is by the first one.

        Raises:
            ValueError: no step is known.
        """
        found = step if step is not None else self._values.get("step", self._values.get("envSteps"))
        if found is None and self._group.saves:
            raise ValueError("a checkpoint is of a step: give one, or report one before")
        with self._heartbeats.busy():
            if not self._group.save(int(found or 0), write, shards=shards):
                return False
        self._tell()
        return True

    def saved(self, step: float) -> None:
        """Report a checkpoint that a library has saved by itself; `checkpoint.is_due` begins again.

        Args:
            step: of the checkpoint, which a new pod gets as `DI_RESTORE_STEP`.
        """
        if not self._group.saves:
            # The first process may still be writing.
            self.checkpoint.passed()
            return
        self.checkpoint.saved(int(step))
        self._tell()

    # ------------------------------------------------------------ what it says back
    @property
    def observations(self) -> list[dict[str, Any]]:
        """Return the measurements, for the job's checkpoint and `training(observations=)`."""
        return self._observations.raw()

    @property
    def batch_size(self) -> int | None:
        """Return the number of samples that all learners should train on between two updates, as
        the allocator advises.

        It fits the job's present replicas, by its reports, for jobs with `max_batch_size`. Only the
        process that reports knows it, after its first report; None: no advice.
        """
        return None if self._sender is None else self._sender.advised

    @property
    def knows_nodes(self) -> bool:
        """True if the number of the learners' nodes is known, without which the allocator cannot
        use iterations as observations.
        """
        return self._nodes_now() is not None

    @property
    def waiting_share(self) -> float | None:
        """Return the share of the last iterations spent waiting for samples; None: not measured."""
        return self._window.waiting if self._knows_waiting else None

    @property
    def stale_share(self) -> float:
        """Return the share of samples in the last iterations that were discarded as too old."""
        return self._window.stale

    @property
    def collectors(self) -> int | None:
        """Return the wanted number of collectors, as far as this program knows; None: unknown."""
        return self._collectors

    def now_collects(self, collectors: int) -> None:
        """Set the number of collectors; earlier measurements are discarded."""
        self._is_told_collectors = True
        if collectors != self._collectors:
            self._measure_anew(collectors)

    def rescale(self, *, least: int = 1, most: int | None = None) -> int | None:
        """Scale the collectors to the number that `advise` returns; call it in each iteration,
        never waits.

        A thread sends the requests: first for the wanted number, which other clients, or this
        program before a restart in its pod, may have changed. If di-server refuses a number (beyond
        a bound, which it knows) half the change is tried. After a response, or a refusal, measuring
        starts again. No more are requested while some that were granted within the last two minutes
        are missing, by `report(collectors=)`.

        Returns the new number, once di-server has confirmed it; else None.
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
        self._env_steps.clear()

    def advise(self, *, least: int = 1, most: int | None = None) -> int | None:
        """Return the number of collectors that would keep the learner busy without stale samples.

        Computed by `wanted_collectors` from the last iterations. None: no change; or it is too
        early; or the number of collectors is unknown (`report(collectors=)`, `di.scale`, or those
        of the task `samples_from` when the pod started); or waiting was not measured.
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
        """Set the number of learners; the running iteration was begun with another number."""
        self.learners = learners
        self._stopwatch.drop()
        self._window.clear()
        self._env_steps.clear()
        self._batch = None

    def _nodes_now(self) -> int | None:
        """On how many nodes the learners are; None: that is not known."""
        if self.learners == 1:
            return 1
        if self._nodes is not None:
            return min(self._nodes, self.learners)
        known = None if self._sender is None else self._sender.nodes
        # An answer about another number of learners says nothing of these.
        return known[1] if known is not None and known[0] == self.learners else None

    def _count(self, lap: Lap) -> None:
        self._window.add(lap)
        if self.checkpoint.restored_step is not None and "restoreSeconds" not in self._values:
            self._values["restoreSeconds"] = round(seconds_since_start(), 2)
        if (nodes := self._nodes_now()) is not None:
            kind = self._job.node_kind
            self._observations.add(lap, nodes=nodes, replicas=self.learners, kind=kind)
        if lap.samples:
            self._batch = self.learners * lap.samples

    def _tell(self) -> None:
        if self._sender is None:
            return
        said = {**self._values, **self._measured()}
        # What was measured of another group, and is not of this one yet, is taken back.
        self._sender.tell({**dict.fromkeys(self._told - said.keys()), **said})
        self._told |= said.keys()

    def _measured(self) -> dict[str, Any]:
        found = {
            "reportedAt": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "trainStepsPerSec": _rounded(self._window.rate),
            "learnerWaitFrac": _rounded(self.waiting_share),
            "gpuIdleFrac": None if self._gpus is None else _rounded(self._gpus.share),
            "envStepsPerSec": _rounded(rate_of(self._env_steps)),
            "batchSize": self._batch,
            "observations": self._observations.raw() or None,
            "checkpointStep": self.checkpoint.saved_step,
            "collectors": self._collectors if self._is_told_collectors else None,
        }
        if self._stale:
            found["staleDropped"], found["staleFrac"] = self._stale, _rounded(self._window.stale)
        # Values that the program itself reports override these.
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
