"""A trial as its job shows it. All that a sweep has to remember is on its trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from di_api.field_error import items, mapping
from di_api.names import (
    ANNOTATION_PARAMETERS,
    ANNOTATION_RUNGS,
    GPU_RESOURCE,
    LABEL_TRIAL,
    REPORTED_STEP,
)
from di_api.phase import Phase
from di_api.profilings import find_metric, numbers_of
from di_api.quantity import parse_quantity
from di_api.sweeps.space import Value
from di_api.sweeps.spec import SweepSpec
from di_api.timestamps import parse_time

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The trial that replaces another one of a population.

    Attributes:
        source: index of the trial whose checkpoint it starts from.
        parameters: by name.
    """

    source: int
    parameters: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial of a sweep.

    Attributes:
        phase: of its job.
        step: number of steps that its last report shows; None before the first.
        value: of the objective in its last report; None before the first.
        rungs: value of the objective at the rungs of early stopping, by the step of the rung.
        judged: step of the last rung that the trial was compared at; 0 before the first.
        stopped: why it was stopped; empty for a trial that was not.
        parameters: by name; read for a population only.
        saved: step of the last checkpoint in its reports; None before the first.
        copy: the trial that replaces it; None if there is none.
        source: index of the trial that it is a copy of; None for others.
        born: step of the comparison that a copy was created after; 0 for other trials.
        gpus: number of GPUs that it requests.
        seconds: time since its job has started, until its end or its stop.
    """

    index: int
    phase: Phase = Phase.PENDING
    step: float | None = None
    value: float | None = None
    rungs: Mapping[int, float] = field(default_factory=dict)
    judged: int = 0
    stopped: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    saved: float | None = None
    copy: Copy | None = None
    source: int | None = None
    born: int = 0
    gpus: int = 0
    seconds: float = 0.0

    @property
    def is_active(self) -> bool:
        """Return whether it runs, or waits to run."""
        return not self.phase.is_finished and not self.stopped


def read_trial(job: Object, spec: SweepSpec, now: datetime) -> Trial | None:
    """Return a job as a trial; None if its label has no index."""
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    index = mapping(metadata.get("labels")).get(LABEL_TRIAL)
    if not isinstance(index, str) or not index.isdecimal():
        return None
    numbers = numbers_of(status)
    annotations = mapping(metadata.get("annotations"))
    record = _object(annotations.get(ANNOTATION_RUNGS))
    judged, stopped, until = (record.get(key) for key in ("judged", "stopped", "seconds"))
    source, born = (record.get(key) for key in ("source", "born"))
    has_copies = spec.population is not None
    try:
        phase = Phase(status.get("phase") or Phase.PENDING)
    except ValueError:
        phase = Phase.PENDING
    return Trial(
        index=int(index),
        phase=phase,
        step=_number(numbers, spec.progress),
        value=_number(numbers, spec.objective.metric),
        rungs=_read_rungs(record),
        judged=judged if isinstance(judged, int) else 0,
        stopped=stopped if isinstance(stopped, str) else "",
        parameters=_object(annotations.get(ANNOTATION_PARAMETERS)) if has_copies else {},
        saved=numbers.get(REPORTED_STEP),
        copy=_read_copy(mapping(record.get("copy"))),
        source=source if isinstance(source, int) else None,
        born=born if isinstance(born, int) else 0,
        gpus=_gpus(mapping(job.get("spec"))),
        seconds=until if isinstance(until, int | float) else _seconds(status, now),
    )


def rungs_text(trial: Trial) -> str:
    """Return the annotation with what `read_trial` has to know about earlier comparisons."""
    found = {
        "rungs": {str(step): value for step, value in sorted(trial.rungs.items())},
        "judged": trial.judged,
        "stopped": trial.stopped,
        "copy": None
        if trial.copy is None
        else {"source": trial.copy.source, "parameters": trial.copy.parameters},
        "source": trial.source,
        "born": trial.born or None,
        # The job itself does not show when it was stopped.
        "seconds": round(trial.seconds, 1) if trial.stopped else None,
    }
    # Index 0 is a source.
    kept = {key: value for key, value in found.items() if value or key == "source"}
    return json.dumps({key: value for key, value in kept.items() if value is not None})


def _object(text: object) -> Object:
    """Return an annotation as an object; empty if it is not valid."""
    try:
        return mapping(json.loads(text)) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}


def _read_rungs(record: Object) -> dict[int, float]:
    return {
        int(step): float(value)
        for step, value in mapping(record.get("rungs")).items()
        if step.isdecimal() and isinstance(value, int | float)
    }


def _read_copy(found: Object) -> Copy | None:
    source = found.get("source")
    if not isinstance(source, int):
        return None
    return Copy(source=source, parameters=mapping(found.get("parameters")))


def _number(numbers: Mapping[str, float], name: str) -> float | None:
    found = find_metric(numbers, name)
    return None if found is None else numbers[found]


def _gpus(spec: Object) -> int:
    total = 0
    for task in map(mapping, items(spec.get("tasks"))):
        pod = mapping(mapping(task.get("template")).get("spec"))
        limits = [
            mapping(mapping(mapping(each).get("resources")).get("limits")).get(GPU_RESOURCE)
            for each in items(pod.get("containers"))
        ]
        replicas = task.get("replicas", 1)
        if isinstance(replicas, int):
            total += replicas * sum(int(parse_quantity(each)) for each in limits if each)
    return total


def _seconds(status: Object, now: datetime) -> float:
    began = parse_time(status.get("startTime"))
    ended = parse_time(status.get("completionTimestamp")) or now
    return 0.0 if began is None else max(0.0, (ended - began).total_seconds())
