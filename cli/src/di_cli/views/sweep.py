"""The first trials of a sweep, before any of them runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from di_api.sweeps import Space, SweepSpec, trial_name

Object = Mapping[str, Any]


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
