"""Selection of the local runs that a command is about, from the runs of `di run`.

Their records belong to di-local (docs/how-to/local.md, "Where things are"); without that package
there are none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from di_cli.access.kubeconfig import read_access
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_kube.config import ConfigError

if TYPE_CHECKING:
    from di_local.runs import Run


def known_runs() -> list[Run]:
    """Return all runs of this user, the latest first, ended ones included."""
    try:
        from di_local import runs  # noqa: PLC0415  # another package, which need not be there
    except ImportError:
        return []
    with suppress(OSError):
        return list(runs.runs(runs.state_directory(os.environ)))
    return []


def meant_runs(
    job: str | None, *, namespace: str | None, context: str | None, local: bool | None
) -> list[Run]:
    """Return the runs that a command is about; empty means the cluster.

    A context selects a cluster, and a $KUBECONFIG of a run selects that run. Otherwise a running
    local job comes before one in the cluster; without a job's name the cluster is selected, if
    there is one.

    Args:
        job: its name; None means all.
        namespace: as requested.
        context: as requested.
        local: True, False: only local, only in the cluster; None: either.

    Raises:
        CommandError: a local run is requested, and there is none.
    """
    if local and context is not None:
        raise CommandError(
            "--local and --context contradict each other", code=ExitCode.USAGE, remedy="one of them"
        )
    if local is False or context is not None:
        return []
    live = [run for run in known_runs() if run.is_under_way]
    if chosen := [run for run in live if str(run.kubeconfig) == os.environ.get("KUBECONFIG")]:
        return chosen
    found = [
        run for run in live if (job is None or run.has(job)) and namespace in (None, run.namespace)
    ]
    if local and job is not None and not found:
        others = ", ".join(sorted({run.job for run in live}))
        raise CommandError(
            f"no job {job} runs on this machine",
            where="\n".join([f"jobs that do: {others}" if others else "", end_of_run(job)]),
            remedy=f"di run job.yaml; without --local: {job} of the cluster",
            code=ExitCode.NOT_FOUND,
        )
    if job is None and not local and _is_there_a_cluster():
        return []
    return found


def the_one(runs: Sequence[Run]) -> Run | None:
    """Return the only run, or None.

    Raises:
        CommandError: there are several.
    """
    if len(runs) > 1:
        lines = [f"{run.namespace}/{run.job} since {run.began}: {run.directory}" for run in runs]
        raise CommandError(
            f"{len(runs)} runs on this machine can be meant",
            where="\n".join(lines),
            remedy=f"a job's name, or KUBECONFIG={runs[0].kubeconfig} di ...",
            code=ExitCode.USAGE,
        )
    return runs[0] if runs else None


def end_of_run(job: str) -> str:
    """Return where the logs of the job's last run are, if it has ended; else an empty string."""
    for run in known_runs():
        if run.has(job):
            over = f"its run on this machine is over; logs: {run.directory}"
            return "" if run.is_under_way else over
    return ""


def _is_there_a_cluster() -> bool:
    try:
        read_access()
    except ConfigError:
        return False
    return True
