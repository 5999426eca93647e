"""The records of runs: logs, directories of pods, and access to the API."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

KEPT: Final = 10
"""Number of ended runs whose logs are kept."""
_ABOUT: Final = "run.json"
_END: Final = "job.json"
KUBECONFIG: Final = "kubeconfig"
TRIALS: Final = "trials.json"
"""File of a sweep's run: its trials, with their parameters and last values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, running or ended.

    Attributes:
        job: name of its job, or of its sweep.
        pid: of the process that runs it.
        url: of its API.
        is_sweep: whether its jobs are the trials of a sweep.
    """

    name: str
    job: str
    namespace: str
    pid: int
    began: str
    url: str
    directory: Path
    is_sweep: bool = False

    def has(self, job: str) -> bool:
        """Return whether a job of that name runs in it, or did."""
        if not self.is_sweep:
            return job == self.job
        sweep, _, index = job.rpartition("-")
        return sweep == self.job and index.isdecimal()

    @property
    def is_under_way(self) -> bool:
        """Return whether its process exists."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return (self.directory / KUBECONFIG).exists()

    @property
    def last_job(self) -> dict[str, Any] | None:
        """Return the job as it was when the run ended; None before, or if the run was killed."""
        try:
            found: dict[str, Any] = json.loads((self.directory / _END).read_text())
        except (OSError, ValueError):
            return None
        return found

    @property
    def kubeconfig(self) -> Path:
        """Return the path of the kubeconfig for its API, with the user's token; removed at the end
        of the run.
        """
        return self.directory / KUBECONFIG


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of all runs (XDG Base Directory Specification: state)."""
    state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser())
    below = "" if environ.get("XDG_STATE_HOME") else ".local/state"
    return Path(state) / below / "di-orchestrator" / "runs"


def new_directory(state: Path, job: str, now: datetime) -> Path:
    """Create the directory of a new run, readable only by the user.

    Raises:
        OSError: it cannot be created.
    """
    path = state / f"{now:%Y%m%d-%H%M%S}-{job}-{secrets.token_hex(2)}"
    path.mkdir(parents=True, mode=0o700)
    return path


def note(
    directory: Path,
    job: Mapping[str, Any],
    *,
    url: str,
    token: str,
    began: datetime,
    is_sweep: bool = False,
) -> Run:
    """Record a run at its start, with access to its API."""
    metadata = job["metadata"]
    run = Run(
        name=directory.name,
        job=metadata["name"],
        namespace=metadata["namespace"],
        pid=os.getpid(),
        began=began.isoformat(timespec="seconds"),
        url=url,
        directory=directory,
        is_sweep=is_sweep,
    )
    fields = ("name", "job", "namespace", "pid", "began", "url", "is_sweep")
    _write(directory / KUBECONFIG, json.dumps(_kubeconfig(run, token)))
    _write(directory / _ABOUT, json.dumps({field: getattr(run, field) for field in fields}))
    return run


def keep(directory: Path, job: Mapping[str, Any]) -> None:
    """Record the last state of the job of a run."""
    _write(directory / _END, json.dumps(job))


def keep_trials(directory: Path, trials: Mapping[str, Any]) -> None:
    """Record the trials of a sweep."""
    _write(directory / TRIALS, json.dumps(trials, indent=1))


def close(run: Run) -> None:
    """Record the end of a run: its API has stopped, and its token is invalid."""
    run.kubeconfig.unlink(missing_ok=True)


def runs(state: Path) -> Iterator[Run]:
    """Yield all known runs, the latest first."""
    for directory in sorted(state.iterdir() if state.is_dir() else (), reverse=True):
        with suppress(OSError, ValueError, TypeError):
            yield Run(**json.loads((directory / _ABOUT).read_text()), directory=directory)


def prune(state: Path) -> None:
    """Delete the oldest ended runs, except for KEPT of them."""
    over = [run for run in runs(state) if not run.is_under_way]
    for run in over[KEPT:]:
        shutil.rmtree(run.directory, ignore_errors=True)


def _kubeconfig(run: Run, token: str) -> dict[str, Any]:
    name = "di-local"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": run.url}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": run.namespace}}
        ],
    }


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
