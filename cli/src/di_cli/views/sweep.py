"""Sweeps and their trials: those of a cluster, and the first ones of a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import ANNOTATION_PARAMETERS
from di_api.sweeps import Space, SweepSpec, Trial, read_trial, trial_name

Object = Mapping[str, Any]
SWEEPS: Final = ("NAME", "TRIALS", "RUNNING", "STOPPED", "FAILED", "BEST", "VALUE", "STATE")
"""Header of the table of sweeps."""
_COUNTS: Final = ("created", "running", "stopped", "failed")


def size(spec: SweepSpec) -> int:
    """Return the number of trials of a sweep."""
    return Space(spec).size


def first_trials(sweep: Object, spec: SweepSpec, count: int) -> list[dict[str, Any]]:
    """Return the names and parameters of the first trials."""
    space, name = Space(spec), str(sweep["metadata"]["name"])
    return [
        {"name": trial_name(name, index), "parameters": space.parameters(index)}
        for index in range(min(count, space.size))
    ]


def header(trials: Sequence[Object]) -> tuple[str, ...]:
    """Return the header of the table, with a column for each parameter."""
    return ("TRIAL", *(name.upper() for name in trials[0]["parameters"]))


def row(trial: Object) -> tuple[str, ...]:
    """Return the row of a trial."""
    return (str(trial["name"]), *map(str, trial["parameters"].values()))


def sweep_row(sweep: Object) -> tuple[str, ...]:
    """Return the row of a sweep of a cluster."""
    status = mapping(sweep.get("status"))
    best = mapping(status.get("best"))
    return (
        str(sweep["metadata"]["name"]),
        *(str(status.get(name) or 0) for name in _COUNTS),
        str(best.get("trial") or "-"),
        _number(best.get("value")),
        _state(status),
    )


def trials_header(spec: SweepSpec) -> tuple[str, ...]:
    """Return the header of the table of trials."""
    return ("TRIAL", "STATE", "STEP", spec.objective.metric.upper(), "PARAMETERS")


def trial_rows(jobs: Iterable[Object], spec: SweepSpec, now: datetime) -> list[tuple[str, ...]]:
    """Return the rows of the trials of a sweep, in the order of their index."""
    found = [(trial, job) for job in jobs if (trial := read_trial(job, spec, now)) is not None]
    return [
        (
            str(job["metadata"]["name"]),
            _phase(trial),
            _number(trial.step),
            _number(trial.value),
            _parameters(job),
        )
        for trial, job in sorted(found, key=lambda pair: pair[0].index)
    ]


def _phase(trial: Trial) -> str:
    is_stopped = trial.stopped and not trial.phase.is_finished
    return "Stopped" if is_stopped else trial.phase.value


def _state(status: Object) -> str:
    """Return the reason of the condition that is not as hoped, or of the end."""
    held = {
        str(mapping(each).get("type")): (mapping(each).get("status"), mapping(each).get("reason"))
        for each in items(status.get("conditions"))
    }
    for kind, wanted in (("Valid", "False"), ("Complete", "True"), ("Refused", "True")):
        found, reason = held.get(kind, (None, None))
        if found == wanted:
            return str(reason)
    return "InProgress"


def _number(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.6g}" if is_number else "-"


def _parameters(job: Object) -> str:
    text = mapping(job["metadata"].get("annotations")).get(ANNOTATION_PARAMETERS)
    try:
        found = mapping(json.loads(text)) if isinstance(text, str) else {}
    except ValueError:
        found = {}
    return " ".join(f"{name}={value}" for name, value in found.items())
