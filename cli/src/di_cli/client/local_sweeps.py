"""A sweep on this machine, for Python programs and notebooks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import yaml
from typing_extensions import override

from di_api.field_error import items, mapping
from di_cli.actions.sweep import checked, sweep_in, with_parallelism
from di_cli.client.errors import TimedOut, raised
from di_cli.client.local_runs import Process, end_run, kept_folder, start_run

if TYPE_CHECKING:
    from di_local.runs import Run

Object = dict[str, Any]


class LocalSweep:
    """A sweep whose trials are processes of this machine."""

    def __init__(self, run: Run, process: Process) -> None:
        self._run, self._process = run, process

    @override
    def __repr__(self) -> str:
        return f"LocalSweep({self.name!r}, best={self.best!r})"

    @property
    def name(self) -> str:
        """Return its name, with which the names of its trials begin."""
        return self._run.job

    @property
    def directory(self) -> Path:
        """Return the directory of the run, with the logs of all trials."""
        return self._run.directory

    @property
    def is_over(self) -> bool:
        """Return whether all trials have ended."""
        return self._process.poll() is not None

    @property
    def trials(self) -> list[Object]:
        """Return the trials with `name`, `parameters`, `state`, `step` and `value`; empty until the
        sweep is over.
        """
        return [dict(each) for each in map(mapping, items(self._record().get("trials")))]

    @property
    def best(self) -> Object | None:
        """Return `trial`, `value` and `parameters` of the best trial; None until the sweep is over,
        or if no trial has reported.
        """
        found = self._record()
        name = f"{self.name}-{found.get('best')}"
        return next(
            (
                {"trial": name, "value": found["value"], "parameters": each["parameters"]}
                for each in self.trials
                if each["name"] == name
            ),
            None,
        )

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until the sweep is over; return it.

        Args:
            timeout: in seconds; None: without a limit.

        Raises:
            TimedOut: the time has passed.
        """
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"sweep {self.name} is not over after {timeout:g} s") from error
        return self

    def stop(self) -> Self:
        """End all trials, which get their grace period; return the sweep."""
        end_run(self._process)
        return self

    def _record(self) -> Mapping[str, Any]:
        from di_local.runs import TRIALS  # noqa: PLC0415  # another package

        try:
            return mapping(json.loads((self.directory / TRIALS).read_text()))
        except (OSError, ValueError):
            return {}


def run_sweep(what: str | Path | Mapping[str, Any], parallelism: int | None) -> LocalSweep:
    """Run a sweep on this machine; return it. Raises JobsError."""
    with raised(None, None):
        given = what if isinstance(what, Mapping) else sweep_in(str(what))
        manifest = with_parallelism(given, parallelism)
        checked(manifest)
    folder = Path.cwd() if isinstance(what, Mapping) else Path(what).resolve().parent
    path = kept_folder() / "sweep.yaml"
    path.write_text(yaml.safe_dump(manifest, allow_unicode=True))
    return LocalSweep(*start_run([str(path), "--folder", str(folder)]))
