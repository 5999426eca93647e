"""A sweep of a cluster, for Python programs and notebooks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from typing_extensions import override

from di_api.field_error import items, mapping
from di_api.names import LABEL_SWEEP
from di_cli.actions.sweep import (
    create_sweep,
    stop_sweep,
    sweep_in,
    where_sweeps_run,
    with_parallelism,
)
from di_cli.client.errors import EndedOtherwise, TimedOut
from di_cli.client.job import Job
from di_cli.client.place import Place
from di_kube.resources import DISWEEPS

Object = dict[str, Any]
_POLL_SECONDS: Final = 1.0


class Sweep:
    """A sweep, as it was when it was last read."""

    def __init__(self, place: Place, manifest: Object) -> None:
        self._place, self._manifest = place, manifest

    @override
    def __repr__(self) -> str:
        return f"Sweep({self.name!r}, best={self.best!r})"

    @property
    def name(self) -> str:
        """Return its name, with which the names of its trials begin."""
        return str(self._manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Return its namespace."""
        return str(self._manifest["metadata"].get("namespace") or self._place.namespace)

    @property
    def manifest(self) -> Object:
        """Return the whole object."""
        return self._manifest

    @property
    def status(self) -> Mapping[str, Any]:
        """Return the counts of its trials, and its conditions."""
        return mapping(self._manifest.get("status"))

    @property
    def best(self) -> Mapping[str, Any] | None:
        """Return `trial`, `value` and `parameters` of the best trial; None before any report."""
        return self.status.get("best")

    @property
    def is_over(self) -> bool:
        """Return whether all trials have ended, or a budget is used."""
        return self._condition("Complete").get("status") == "True"

    def refresh(self) -> Self:
        """Read the sweep again; return it. Raises NotFound."""
        with self._place.session() as session:
            self._manifest = dict(session.client.get(DISWEEPS, self.name, self.namespace))
        return self

    def trials(self) -> list[Job]:
        """Return the jobs of its trials that exist, by name."""
        with self._place.session() as session:
            found = session.jobs(selector=f"{LABEL_SWEEP}={self.name}")
        jobs = sorted(found, key=lambda job: str(job["metadata"]["name"]))
        return [Job(self._place, job) for job in jobs]

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until the sweep is over; return it.

        Args:
            timeout: in seconds; None: without a limit.

        Raises:
            EndedOtherwise: the sweep breaks rules, so that it has no trials.
            TimedOut: the time has passed.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.refresh().is_over:
            valid = self._condition("Valid")
            if valid.get("status") == "False":
                raise EndedOtherwise(f"sweep {self.name} is invalid", where=valid["message"])
            if until is not None and time.monotonic() >= until:
                raise TimedOut(f"sweep {self.name} is not over after {timeout:g} s")
            time.sleep(_POLL_SECONDS)
        return self

    def stop(self) -> Self:
        """Stop all trials for good; return the sweep, which has the best one so far."""
        with self._place.session() as session:
            self._manifest = dict(stop_sweep(session, self.name))
        return self

    def delete(self) -> None:
        """Delete the sweep and the jobs of its trials."""
        with self._place.session() as session:
            session.client.delete(DISWEEPS, self.name, self.namespace)

    def _condition(self, kind: str) -> Mapping[str, Any]:
        found = (mapping(each) for each in items(self.status.get("conditions")))
        return next((each for each in found if each.get("type") == kind), {})


def created(place: Place, what: str | Path | Mapping[str, Any], parallelism: int | None) -> Sweep:
    """Create a sweep; return it."""
    with place.session() as session:
        manifest = dict(what) if isinstance(what, Mapping) else sweep_in(str(what))
        made = create_sweep(session, with_parallelism(manifest, parallelism))
    return Sweep(place, dict(made))


def found(place: Place, name: str) -> Sweep:
    """Return a sweep. Raises NotFound."""
    with place.session() as session, where_sweeps_run():
        return Sweep(place, dict(session.client.get(DISWEEPS, name, session.namespace)))
