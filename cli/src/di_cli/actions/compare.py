"""Comparison of several jobs by their reports."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import mapping
from di_cli.access.history import History
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.export.kept import read_kept, uid_query
from di_cli.session import Session
from di_cli.views.comparison import (
    Axis,
    Compared,
    Comparison,
    compared,
    last_revision,
    nodes_of_pods,
    nodes_placed,
    seconds_placed,
)
from di_cli.views.jobs import seconds_of
from di_cli.views.reports import Reports

Object = dict[str, Any]
_Read = tuple[Compared, Reports, Sequence[str]]
MOST_AT_ONCE: Final = 4
"""Number of jobs that are read at once."""
_NOUNS: Final = {Axis.STEP: "a step", Axis.ENV_STEP: "environment steps", Axis.TIME: "a time"}


def compare(
    session: Session,
    kept: History | None,
    names: Sequence[str],
    metric: str,
    *,
    axis: Axis,
    lowest: bool,
    notes: Sequence[str] = (),
) -> Comparison:
    """Return a comparison of jobs of the session's namespace.

    Args:
        kept: None: each job has its last report alone, which the cluster has.
        metric: name of a number in any spelling.
        notes: what is known to be missing.

    Raises:
        CommandError: no job has reported the number, or di-history refused a job.
        ApiError: a job exists neither in the cluster nor in di-history.
    """
    missing, found, known = [*notes], [], []
    for name, (job, reports, without) in zip(
        names, _read_all(_Reader(session, kept, metric), names), strict=True
    ):
        missing += without
        if not job.points:
            numbers = ", ".join(reports.names()) or "nothing"
            known.append(f"{name} has not reported {metric}; it has reported {numbers}")
        elif any(point.place(axis) is None for point in job.points):
            missing.append(f"{name} has values without {_NOUNS[axis]}; --by time has all of them")
        found.append(job)
    if len(known) == len(found):
        raise CommandError(
            f"no job has reported {metric}",
            where="\n".join(known),
            remedy="--metric NAME",
            code=ExitCode.FAILED,
        )
    return Comparison(wanted=metric, jobs=found, axis=axis, lowest=lowest, notes=[*missing, *known])


def _read_all(reader: _Reader, names: Sequence[str]) -> list[_Read]:
    """Return the jobs, of which some are read at once; the first error ends all."""
    pool = ThreadPoolExecutor(MOST_AT_ONCE)
    try:
        return [*pool.map(reader.read, names)]
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads jobs. Thread-safe."""

    session: Session
    kept: History | None
    metric: str

    def read(self, name: str) -> _Read:
        """Return a job with its reports, and notes of what is missing."""
        notes = []
        kept = read_kept(self.session, self.kept, name)
        job, history, reports = kept.job, kept.history, kept.reports
        if self.kept is not None and history is None:
            notes.append(f"di-history does not have {name}: only its last report is compared")
        nodes = nodes_of_pods(self.session.pods(name)) if history is None else nodes_placed(history)
        if job is not None:
            spec, seconds = job.get("spec"), seconds_of(job, self.session.now())
        else:
            spec, seconds = self._last_spec(name, history or {}), seconds_placed(history or {})
            if spec is None:
                notes.append(f"di-history has no manifest of {name}")
        found = compared(
            name,
            mapping(spec),
            reports,
            self.metric,
            seconds=seconds,
            nodes=nodes,
            is_whole=history is not None,
        )
        return found, reports, notes

    def _last_spec(self, name: str, history: Object) -> object:
        """Return the spec of a deleted job; None if no revision is kept."""
        number = last_revision(history)
        if self.kept is None or number is None:
            return None
        chosen = uid_query(mapping(history.get("job")))
        path = f"/revisions/{number}"
        return self.kept.json(self.session.namespace, name, path, **chosen).get("spec")
