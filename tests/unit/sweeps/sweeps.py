"""Sweeps for tests: manifests, and a cluster of jobs whose reports are a function of the step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from di_api.names import ANNOTATION_RUNGS
from di_api.sweeps import (
    SweepSpec,
    Trial,
    copy_job,
    decide,
    load_sweep,
    read_trial,
    rungs_text,
    trial_job,
    trial_name,
)

Object = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
LR: Object = {
    "name": "lr",
    "argument": "--lr",
    "logUniform": {"min": 0.0001, "max": 0.1},
}


def template(*, name: str = "learner", **container: Any) -> Object:
    main = {"name": "di-container", "image": "none", "command": ["python3", "train.py"]}
    pod = {"containers": [{**main, **container}]}
    return {"spec": {"tasks": [{"type": name, "template": {"spec": pod}}]}}


def sweep(**spec: Any) -> Object:
    """A sweep of twelve random learning rates."""
    usual = {
        "objective": {"metric": "episodeReturn"},
        "maxTrials": 12,
        "parameters": [LR],
        "template": template(),
    }
    given = {key: value for key, value in (usual | spec).items() if value is not None}
    return {"kind": "DISweep", "metadata": {"name": "tune"}, "spec": given}


def spec_of(**spec: Any) -> SweepSpec:
    return load_sweep(sweep(**spec))


class Killed(Exception):
    """The process of the sweep ends before a write, or after it."""


class Cluster:
    """The jobs of one sweep, and a process that runs the sweep and knows nothing by itself.

    Args:
        value_of: value of the objective, by the parameters of a trial and the step.
        last_step: step at which programs end.
    """

    def __init__(
        self, manifest: Object, value_of: Callable[[Mapping[str, Any], int], float], last_step: int
    ) -> None:
        self.manifest = manifest
        self.spec = load_sweep(manifest)
        self.jobs: dict[str, Object] = {}
        self.created: list[str] = []
        self.steps = 0
        self._value_of, self._last_step = value_of, last_step
        self.now = START

    def value_of(self, parameters: Mapping[str, Any], step: int, _: Mapping[str, Any]) -> float:
        """The value of the next report, by the parameters, its step and the report before it."""
        return self._value_of(parameters, step)

    def trials(self) -> list[Trial]:
        found = [read_trial(job, self.spec, self.now) for job in self.jobs.values()]
        return [each for each in found if each is not None]

    def reconcile(self, at_write: Callable[[], None] = lambda: None) -> bool:
        """Carry out one decision, write by write; return whether the sweep is over."""
        found = decide(
            self.spec,
            self.trials(),
            elapsed=(self.now - START).total_seconds(),
            ending=sum("endsAt" in job["status"] for job in self.jobs.values()),
        )
        for each in found.changed:
            at_write()
            job = self.jobs[trial_name("tune", each.index)]
            job["metadata"]["annotations"][ANNOTATION_RUNGS] = rungs_text(each)
            if each.stopped:
                job["spec"] = {**job["spec"], "suspend": True}
                # Its pods need their grace period.
                job["status"]["endsAt"] = "soon"
            at_write()
        for index in found.create:
            self._create(trial_job(self.manifest, self.spec, index), {"step": 0}, at_write)
        for index, replaced in found.copies:
            assert replaced.copy is not None, "it is replaced"
            # It continues at the checkpoint of its source.
            source = self.jobs[trial_name("tune", replaced.copy.source)]["status"]["profilings"]
            job = copy_job(self.manifest, self.spec, index, replaced)
            self._create(job, source, at_write)
        return found.is_over

    def _create(self, job: Object, reported: Object, at_write: Callable[[], None]) -> None:
        at_write()
        name = job["metadata"]["name"]
        assert name not in self.jobs, "a name is used once"
        started = {"phase": "Running", "startTime": self.now.isoformat(), "profilings": {}}
        self.jobs[name] = {**job, "status": {**started, "restored": {**reported}}}
        self.created.append(name)
        at_write()

    def work(self, order: Iterator[int], step: int = 1) -> None:
        """Let running jobs take a step each and report, in this order of their indexes."""
        self.now += timedelta(seconds=1)
        for job in self.jobs.values():
            job["status"].pop("endsAt", None)
        running = [
            job
            for job in self.jobs.values()
            if job["status"]["phase"] == "Running" and not job["spec"].get("suspend")
        ]
        for number in order:
            if number < len(running):
                job = running[number]
                parameters = json.loads(job["metadata"]["annotations"]["diengine/parameters"])
                before = job["status"]["profilings"] or job["status"]["restored"]
                at = before["step"] + step
                self.steps += step
                value = self.value_of(parameters, at, before)
                report = {"step": at, "episodeReturn": value, "checkpointStep": at}
                job["status"]["profilings"] = report
                if at >= self._last_step:
                    job["status"]["phase"] = "Succeeded"
                    job["status"]["completionTimestamp"] = self.now.isoformat()
