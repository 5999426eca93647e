"""Runs a sweep: its trials are jobs of one run, so many at a time.

All decisions are those of `di_api.sweeps`. A trial that has ended or was stopped is deleted, so
that its addresses are free for others; its last state is kept here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from di_api.field_error import mapping
from di_api.names import ANNOTATION_PARAMETERS, ANNOTATION_RUNGS, LABEL_JOB, LABEL_SWEEP
from di_api.sweeps import (
    Decision,
    Summary,
    SweepSpec,
    Trial,
    checkpoint_name,
    copy_job,
    decide,
    load_sweep,
    missing_checkpoints,
    read_trial,
    rungs_text,
    summarize,
    trial_job,
    trial_name,
)
from di_kube.resources import DIJOBS, PODS
from di_local import runs
from di_local.api.objects import Change, Object
from di_local.api.refused import Refused
from di_local.images import read_images
from di_local.logs import Follower, last_lines
from di_local.manifest import Manifest, with_checkpoint
from di_local.run import (
    Interrupts,
    Options,
    Started,
    checked,
    create_beside,
    end_of,
    first_of,
    runtime_of,
    started,
    variables_of_images,
)
from di_local.screen import log_line, log_lines
from di_local.trials import TrialTable
from di_local.watching import start_error

_LAST_LINES: Final = 20
_CHECKPOINTS: Final = "checkpoints"
"""Directory of a population's checkpoints in that of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """The result of a sweep.

    Attributes:
        trials: by index.
        parameters: of the best trial; empty without one.
        exhausted: the budget that ended it; empty if all trials have ended.
        cannot_start: the error for which the program can never start; empty without one.
        is_interrupted: whether the user ended it.
    """

    spec: SweepSpec
    trials: Mapping[int, Trial]
    summary: Summary
    parameters: Mapping[str, Any]
    exhausted: str
    cannot_start: str
    is_interrupted: bool
    seconds: float
    directory: Path


async def run_sweep(
    manifest: Manifest,
    options: Options,
    *,
    parallelism: int | None,
    checkpoint: Path | None,
    say: Callable[[Text], None],
    interrupts: Interrupts,
) -> SweepOutcome:
    """Run a sweep to its end. When this returns, no process of it runs any more.

    Args:
        manifest: has the sweep in place of a job.
        options: how to run the jobs.
        parallelism: number of trials at the same time; None: as the sweep has it.
        checkpoint: has a directory for each trial; None: none.
        say: writes a line.
        interrupts: end the sweep.

    Raises:
        InvalidSpec: the sweep breaks rules; nothing was started.
        CannotRun, NoAddress, OSError: as for `di_local.run.run`.
    """
    if parallelism is not None:
        spec = {**mapping(manifest.job.get("spec")), "parallelism": parallelism}
        manifest = replace(manifest, job={**manifest.job, "spec": spec})
    loaded = load_sweep(manifest.job)
    images = read_images(manifest.directory, options.command)
    # A population has its checkpoints in the directory of the run, which is not known yet.
    place = checkpoint or (None if loaded.population is None else Path.cwd())
    tried = manifest if place is None else with_checkpoints(manifest, place)
    first = replace(tried, job=trial_job(tried.job, load_sweep(tried.job), 0))
    job = checked(first, options, images, say)
    variables = variables_of_images(job, options, say)
    make_runtime = partial(runtime_of, manifest, options, images, variables)
    began = time.monotonic()
    async with started(manifest, options, make_runtime, is_sweep=True) as here:
        create_beside(here.plane, manifest)
        trials = Trials(manifest, here, checkpoint=checkpoint, say=say)
        following = _follow(here, options)
        try:
            exhausted = await trials.run(interrupts)
        finally:
            following.cancel()
        outcome = trials.outcome(exhausted, interrupts)
        runs.keep_trials(here.directory, trials.record(outcome.summary))
        await first_of(here.kubelet.end(), interrupts.second())
    return replace(outcome, seconds=time.monotonic() - began)


class Trials:
    """The trials of a sweep, running and ended."""

    def __init__(
        self,
        manifest: Manifest,
        here: Started,
        *,
        checkpoint: Path | None,
        say: Callable[[Text], None],
    ) -> None:
        if load_sweep(manifest.job).population is not None:
            checkpoint = checkpoint or here.directory / _CHECKPOINTS
            manifest = _as_of_run(manifest, here.directory.name)
        if checkpoint is not None:
            manifest = with_checkpoints(manifest, checkpoint)
        self._manifest, self._here = manifest, here
        self._spec = spec = load_sweep(manifest.job)
        self._checkpoint, self._say = checkpoint, say
        self._objects = here.plane.objects
        self._name = str(manifest.job["metadata"]["name"])
        self._namespace = str(manifest.job["metadata"]["namespace"])
        self._ended: dict[int, Trial] = {}
        self._parameters: dict[int, Mapping[str, Any]] = {}
        self._news = asyncio.Event()
        self._began = time.monotonic()
        self._failed: dict[str, Path] = {}
        self._cannot_start = ""
        self._has_explained = False
        self._has_warned = False
        self._table = TrialTable(spec, self._name)
        self._objects.subscribe(self._on_change)

    async def run(self, interrupts: Interrupts) -> str:
        """Create and stop trials until all have ended; return the budget that ended the sweep."""
        self._say(Text(self._table.header(), "dim"))
        while True:
            self._news.clear()
            self._note_ended()
            found = decide(
                self._spec,
                self._all(),
                created=len(self._parameters),
                elapsed=time.monotonic() - self._began,
                ending=self._ending(),
            )
            self._carry_out(found)
            if found.is_over or self._cannot_start:
                return found.exhausted
            waits = [self._news.wait(), interrupts.first(), end_of(self._here.plane)]
            if self._spec.max_seconds is not None:
                waits.append(asyncio.sleep(self._began + self._spec.max_seconds - time.monotonic()))
            await first_of(*waits)
            if interrupts.happened:
                self._end_all()
                return found.exhausted

    def outcome(self, exhausted: str, interrupts: Interrupts) -> SweepOutcome:
        """Return the result so far."""
        trials = {each.index: each for each in self._all()}
        summary = summarize(self._spec, trials.values())
        best = {} if summary.best is None else self._parameters[summary.best]
        return SweepOutcome(
            spec=self._spec,
            trials=trials,
            summary=summary,
            parameters=best,
            exhausted=exhausted,
            cannot_start=self._cannot_start,
            is_interrupted=interrupts.happened,
            seconds=time.monotonic() - self._began,
            directory=self._here.directory,
        )

    def record(self, summary: Summary) -> dict[str, Any]:
        """Return all trials for programs."""
        objective = self._spec.objective
        return {
            "sweep": self._name,
            "objective": {"metric": objective.metric, "goal": objective.goal.value},
            "best": summary.best,
            "value": summary.value,
            "trials": [
                {
                    "name": trial_name(self._name, each.index),
                    "parameters": self._parameters[each.index],
                    "state": self._table.state(each),
                    "step": each.step,
                    "value": each.value,
                    "seconds": round(each.seconds, 1),
                    **({"stopped": each.stopped} if each.stopped else {}),
                    **({} if each.source is None else {"copyOf": self._name_of(each.source)}),
                }
                for each in sorted(self._all(), key=lambda trial: trial.index)
            ],
        }

    def _name_of(self, index: int) -> str:
        return trial_name(self._name, index)

    # --- what happens ---

    def _on_change(self, change: Change) -> None:
        if change.plural == DIJOBS.plural:
            self._news.set()
        elif change.plural == PODS.plural:
            if change.after is None and change.before is not None:
                self._here.network.forget(change.before["metadata"]["name"])
                self._news.set()
            elif change.after is not None:
                self._note_failure(change.after)

    def _note_failure(self, pod: Object) -> None:
        """Remember the log of a container that failed; end the sweep if no program can start."""
        job = mapping(pod["metadata"].get("labels")).get(LABEL_JOB, "")
        for container in mapping(pod.get("status")).get("containerStatuses") or ():
            ended = container["state"].get("terminated") or {}
            path = self._here.kubelet.log(pod, container["name"])
            if not ended.get("exitCode") or path is None:
                continue
            self._failed[job] = path
            has_reported = any(each.value is not None for each in self._all())
            error = start_error(last_lines(path, 1))
            if error and not has_reported and not self._cannot_start:
                self._cannot_start = error
                self._news.set()

    def _live(self) -> list[tuple[Trial, Object]]:
        now, found = datetime.now(UTC), []
        for job in self._objects.list(DIJOBS):
            if mapping(job["metadata"].get("labels")).get(LABEL_SWEEP) == self._name:
                trial = read_trial(job, self._spec, now)
                if trial is not None:
                    found.append((trial, job))
        return found

    def _all(self) -> list[Trial]:
        live = {trial.index: trial for trial, _ in self._live()}
        return list({**live, **self._ended}.values())

    def _ending(self) -> int:
        """Return the number of ended trials of which pods still run."""
        names = {
            mapping(pod["metadata"].get("labels")).get(LABEL_JOB)
            for pod in self._objects.list(PODS)
        }
        return sum(trial_name(self._name, index) in names for index in self._ended)

    # --- what is done ---

    def _note_ended(self) -> None:
        for trial, _ in self._live():
            if trial.phase.is_finished:
                self._end(trial)

    def _carry_out(self, found: Decision) -> None:
        for each in found.changed:
            if each.stopped:
                self._end(each)
            else:
                self._annotate(each)
        for index in found.create if not self._cannot_start else ():
            self._create(trial_job(self._manifest.job, self._spec, index), index)
        for index, replaced in found.copies if not self._cannot_start else ():
            self._create(copy_job(self._manifest.job, self._spec, index, replaced), index)
        missing = missing_checkpoints(self._spec, self._all())
        if missing and not self._has_warned:
            self._has_warned = True
            self._say(Text(missing, "yellow"))

    def _create(self, job: Object, index: int) -> None:
        if self._checkpoint is not None:
            own = self._checkpoint / checkpoint_name(self._manifest.job, index)
            own.mkdir(parents=True, exist_ok=True)
        annotations = job["metadata"]["annotations"]
        self._parameters[index] = json.loads(annotations[ANNOTATION_PARAMETERS])
        self._objects.create(DIJOBS, job)

    def _annotate(self, trial: Trial) -> None:
        with suppress(Refused):
            job = self._objects.get(DIJOBS, self._namespace, trial_name(self._name, trial.index))
            annotations = {**job["metadata"]["annotations"], ANNOTATION_RUNGS: rungs_text(trial)}
            changed = {**job, "metadata": {**job["metadata"], "annotations": annotations}}
            self._objects.replace(DIJOBS, self._namespace, job["metadata"]["name"], changed)

    def _end(self, trial: Trial) -> None:
        """Keep the last state of a trial, and delete its job: its pods get their grace period."""
        before = summarize(self._spec, self._ended.values()).best
        self._ended[trial.index] = trial
        is_best = summarize(self._spec, self._ended.values()).best not in (before, None)
        name = trial_name(self._name, trial.index)
        with suppress(Refused):
            self._objects.delete(DIJOBS, self._namespace, name)
        line = self._table.line(
            trial,
            self._parameters[trial.index],
            elapsed=time.monotonic() - self._began,
            is_best=is_best,
        )
        self._say(line)
        path = self._failed.get(name)
        if trial.phase.is_finished and self._table.is_failed(trial) and path is not None:
            self._explain(name, path)

    def _explain(self, name: str, path: Path) -> None:
        """Show the last lines of the first trial that fails: others mostly fail for the same."""
        if self._has_explained:
            return
        self._has_explained = True
        self._say(Text(f"last lines of {name}, of {path}:", "dim"))
        for text in last_lines(path, _LAST_LINES):
            self._say(log_line(name, 0, text))

    def _end_all(self) -> None:
        for trial, job in self._live():
            self._ended[trial.index] = trial
            with suppress(Refused):
                self._objects.delete(DIJOBS, self._namespace, job["metadata"]["name"])


def with_checkpoints(manifest: Manifest, directory: Path) -> Manifest:
    """Return a sweep whose trials have a directory of this machine for their checkpoints."""
    spec = mapping(manifest.job.get("spec"))
    template = mapping(spec.get("template"))
    job = with_checkpoint(replace(manifest, job={"spec": template.get("spec")}), directory).job
    changed = {**spec, "template": {**template, "spec": job["spec"]}}
    return replace(manifest, job={**manifest.job, "spec": changed})


def _as_of_run(manifest: Manifest, run: str) -> Manifest:
    """Return a sweep with a UID, so that it has other checkpoints than earlier runs."""
    metadata = {**manifest.job["metadata"], "uid": run}
    return replace(manifest, job={**manifest.job, "metadata": metadata})


def _follow(here: Started, options: Options) -> asyncio.Task[Any]:
    """Show the output of pods, if it is to be shown, until the task is cancelled."""
    show, ranks = options.show_logs, dict[str, int]()

    def on_lines(pod: str, lines: Sequence[str]) -> None:
        if show is not None:
            rank = ranks.setdefault(pod, len(ranks))
            show(log_lines(pod, rank, lines, has_colours=options.has_colours))

    return asyncio.create_task(Follower(here.pods, here.times, on_lines).run())
