"""How often a job ends within the interval that its status foretold, on the recorded workloads.

    python -m tools.benchmarks.allocator.predicted_end [--quick | --fit] [--output FOLDER]

Jobs report once a minute how many of their epochs are done, and their status is kept by the
operator's own rule. Each minute of a job that runs is one reading of the interval, which holds if
the job ends in it. `--quick` replays one workload for each kind of job; `--fit` prints the rows of
`RESIZED` and `STEADY` as the first two workloads have them, by the pace alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np

from di_api.expected_completion import ExpectedCompletion
from di_operator.lifecycle.observed.expected_completion import (
    WRITE_PERIOD,
    Run,
    Spread,
    expect,
    has_moved,
    left_by_pace,
    mark_of,
)
from di_operator.lifecycle.observed.reported import Reported
from di_simulator.application import Application, load_applications
from di_simulator.cluster import Cluster
from di_simulator.job import RESTART_SECONDS, SimulatedJob
from di_simulator.main import RECORDED
from di_simulator.simulation import Setting, run

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
FITTED = ("workloads/workload-1", "workloads/workload-2")
"""The constants of the rule come of these; the others have never been seen by it."""
OTHERS = (
    *("workloads/workload-3", "workloads/workload-4", "workloads-0.5/workload-1"),
    *("workloads-1.5/workload-1", "workloads-2.0/workload-1"),
)
_BOUNDS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
_FEWEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Jobs of a kind, and what the allocator does with them."""

    name: str
    policy: str
    remaining_known: bool = False
    is_fixed: bool = False
    """All or nothing, with the batch that the owner has chosen."""

    def setting(self, workload: str) -> Setting:
        """Where they are replayed."""
        return Setting(
            workload=RECORDED / f"{workload}.csv",
            policy=self.policy,
            remaining_known=self.remaining_known,
            fixed_batch=self.is_fixed,
        )


RESIZABLE = Kind(name="resized (`goodput`)", policy="goodput")
KNOWN = Kind(name="resized, work left known", policy="goodput", remaining_known=True)
FIXED = Kind(name="of a fixed size and batch (`fit`)", policy="fit", is_fixed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The end of a job that its status predicted at one moment; times in seconds."""

    job: str
    now: float
    done: float
    resized: bool
    interval: tuple[float, float, float]
    by_pace: float
    """The remaining time at the past rate; 0: unknown."""


@dataclass(slots=True, kw_only=True)
class Follower:
    """Keeps of each job what the operator would keep in its status."""

    is_fixed: bool
    readings: list[Reading] = field(default_factory=list)
    writes: int = 0
    _runs: dict[str, Run] = field(default_factory=dict)
    _placed: dict[str, object] = field(default_factory=dict)
    _written: dict[str, float] = field(default_factory=dict)

    def watch(self, cluster: Cluster) -> None:
        """See a round that has just been decided."""
        for job in cluster.jobs:
            placed = cluster.allocations.get(job.name)
            if job.completed is not None or not placed:
                self._placed.pop(job.name, None)
                self._runs.pop(job.name, None)
                continue
            before = self._runs.get(job.name)
            if self._placed.get(job.name) != placed:
                since = moment(cluster.now + RESTART_SECONDS)
                self._placed[job.name] = placed
                before = replace(before, since=since) if before else None
            else:
                since = before.since if before else moment(cluster.now)
            self._look(job, cluster.now, since, len(placed), before)

    def _look(
        self, job: SimulatedJob, now: float, since: datetime, replicas: int, before: Run | None
    ) -> None:
        step, total = steps_of(job)
        present = Run(
            reported=_report(step, total, now),
            since=since,
            mark=before.mark if before else None,
            before=before.before if before else None,
            # A job that is not resized is none of the allocator's.
            attained=0.0 if self.is_fixed else max(0.0, job.attained - replicas * RESTART_SECONDS),
            replicas=replicas,
            resized=not self.is_fixed and most_replicas(job) > 1,
        )
        # Of one that is not Running yet nothing is said anew.
        is_up = moment(now) >= since
        mark = mark_of(present) if is_up else present.mark
        found = expect(present, moment(now)) if is_up else present.before
        kept = present.before if found else None
        due = now - self._written.get(job.name, -WRITE_PERIOD) >= WRITE_PERIOD
        is_moved = found is not None and has_moved(found, kept, moment(now))
        if mark != present.mark or (due and is_moved):
            self.writes += 1
            self._written[job.name] = now
            kept = found
        self._runs[job.name] = replace(present, mark=mark, before=kept)
        if kept is not None:
            self.readings.append(
                Reading(
                    job=job.name,
                    now=now,
                    done=step / total,
                    resized=present.resized,
                    interval=_seconds(kept),
                    by_pace=(left_by_pace(present) if is_up else None) or 0.0,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How well a workload was foretold.

    `by_reading` and `by_job` are shares of readings within the interval, each reading and each job
    counted alike; `early` and `late` those of jobs that ended before it and after it; `width` the
    median of the interval's length as a share of the time that was left, `off` that of the
    distance between what was expected and the end; `writes` are those of a job in an hour of its
    running.
    """

    kind: str
    workload: str
    readings: int
    by_reading: float
    by_job: float
    early: float
    late: float
    width: float
    off: float
    writes: float


def moment(seconds: float) -> datetime:
    """A time of the simulation as one of the API server's."""
    return _BEGAN + timedelta(seconds=seconds)


def steps_of(job: SimulatedJob) -> tuple[float, float]:
    """What a program reports: how many steps are done, and of how many.

    Whose batch is fixed counts iterations; who changes it counts what does not depend on it, epochs
    and the part of the present one.
    """
    application, last = job.application, job.application.epochs
    if job.epoch >= last:
        part = 0.0
    else:
        begun = application.progress_after(job.epoch)
        length = application.progress_after(job.epoch + 1) - begun
        part = min(1.0, max(0.0, (job.progress - begun) / length))
    if job.batch is None:
        return job.epoch + part, float(last)
    batch = job.batch

    def iterations(epochs: int) -> float:
        return application.iterations_after(batch, epochs - 1) if epochs else 0.0

    done = iterations(job.epoch)
    if part:
        done += part * (iterations(job.epoch + 1) - done)
    return done, iterations(last)


def most_replicas(job: SimulatedJob) -> int:
    """The most that its batch can be divided among."""
    limits = job.application.limits
    return (job.batch or limits.maximum) // limits.local_min


def replay(
    kind: Kind, workload: str, applications: Mapping[str, Application]
) -> tuple[Score, list[tuple[Reading, float]]]:
    """Run a workload; returns also each reading with the seconds that were really left."""
    follower = Follower(is_fixed=kind.is_fixed)
    result = run(
        kind.setting(workload), applications, stopwatch=time.process_time, watch=follower.watch
    )
    ends = {job.name: job.completed for job in result.jobs}
    read = [(each, ends[each.job] - each.now) for each in follower.readings]
    return _score(kind.name, workload, read, follower.writes), read


def _score(kind: str, workload: str, read: Sequence[tuple[Reading, float]], writes: int) -> Score:
    names = [reading.job for reading, _ in read]
    _, of_job, counts = np.unique(names, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[of_job]
    left = np.array([each for _, each in read])
    starts = np.array([reading.now for reading, _ in read])
    earliest, expected, latest = (
        np.array([reading.interval[place] for reading, _ in read]) - starts for place in range(3)
    )
    holds = (earliest <= left) & (left <= latest)
    with np.errstate(divide="ignore"):  # the median takes a reading at the very end for a large one
        width, off = (latest - earliest) / left, np.abs(expected - left) / left
    return Score(
        kind=kind,
        workload=workload,
        readings=len(read),
        by_reading=float(holds.mean()),
        by_job=float(np.average(holds, weights=weights)),
        early=float(np.average(left < earliest, weights=weights)),
        late=float(np.average(left > latest, weights=weights)),
        width=float(np.median(width)),
        off=float(np.median(off)),
        writes=writes * 60 / len(read),
    )


def fitted(read: Iterable[tuple[Reading, float]], *, is_fixed: bool) -> Iterator[Spread]:
    """Quantiles of what was left as a share of what the pace said, by the share done.

    Of jobs that nobody resizes the pace itself is what is expected, and within the interval. A job
    counts by the square root of its readings: neither the few long ones alone nor the many short
    ones.
    """
    found = [
        (reading.done, left / reading.by_pace, reading.job)
        for reading, left in read
        if reading.by_pace > 0
    ]
    counts: dict[str, int] = {}
    for _, _, job in found:
        counts[job] = counts.get(job, 0) + 1
    for lower, upper in pairwise(_BOUNDS):
        here = sorted(
            (ratio, counts[job] ** -0.5) for done, ratio, job in found if lower <= done < upper
        )
        if len(here) < _FEWEST:
            continue
        ratios, weights = np.array(here).T
        total = np.cumsum(weights)
        shares = (0.19, 0.5, 0.99) if is_fixed else (0.1, 0.5, 0.9)
        low, middle, high = np.interp(shares, total / total[-1], ratios)
        yield Spread(
            done=round((lower + upper) / 2, 3),
            earliest=round(float(low), 2),
            expected=1.0 if is_fixed else round(float(middle), 2),
            latest=round(float(high), 2),
        )


def _report(step: float, total: float, now: float) -> Reported:
    return Reported(
        reported_at=moment(now),
        progressed_at=None,
        waiting_at=None,
        gpu_idle_at=None,
        phase="",
        phase_at=None,
        step=step,
        total=total,
        rejected="",
    )


def _seconds(found: ExpectedCompletion) -> tuple[float, float, float]:
    times = (found.earliest, found.expected, found.latest)
    earliest, expected, latest = ((each - _BEGAN).total_seconds() for each in times)
    return earliest, expected, latest


def line(score: Score) -> str:
    """A row of the table in the documents."""
    return (
        f"| {score.kind} | {score.workload} | {score.readings:,} | {score.by_reading:.0%} | "
        f"{score.by_job:.0%} | {score.early:.0%} | {score.late:.0%} | {score.width:.0%} | "
        f"{score.off:.0%} | {score.writes:.1f} |"
    )


_COLUMNS = ("jobs", "workload", "readings", "hold, by reading", "by job", "ended earlier", "later")
_MORE = ("width", "off", "writes an hour")
HEAD = f"| {' | '.join((*_COLUMNS, *_MORE))} |\n|{'---|' * 10}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Replay and print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("out/predicted-end"))
    options = parser.parse_args(arguments)
    applications = load_applications(RECORDED / "traces")
    if options.fit:
        for kind in (RESIZABLE, FIXED):
            read = [each for one in FITTED for each in replay(kind, one, applications)[1]]
            of_kind = [each for each in read if each[0].resized is not kind.is_fixed]
            print(kind.name, *fitted(of_kind, is_fixed=kind.is_fixed), sep="\n    ")
        return
    workloads = FITTED[:1] if options.quick else (*FITTED, *OTHERS)
    kinds = (RESIZABLE, FIXED) if options.quick else (RESIZABLE, KNOWN, FIXED)
    scores = []
    print(HEAD)
    for kind in kinds:
        for workload in workloads:
            scores.append(replay(kind, workload, applications)[0])
            print(line(scores[-1]), flush=True)
        if len(workloads) > 1:
            unseen = [each for each in scores if each.kind == kind.name and each.workload in OTHERS]
            print(line(_mean(unseen)), flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(each) for each in scores], indent=1)
    (options.output / "scores.json").write_text(text + "\n")


def _mean(scores: Sequence[Score]) -> Score:
    """The mean of several workloads; readings are those of all."""
    means = {
        key: sum(getattr(each, key) for each in scores) / len(scores)
        for key in ("by_reading", "by_job", "early", "late", "width", "off", "writes")
    }
    total = sum(each.readings for each in scores)
    return Score(kind=scores[0].kind, workload="mean of those not fitted", readings=total, **means)


if __name__ == "__main__":
    main()
