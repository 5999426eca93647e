"""Jobs from Python: `from di_orchestrator import jobs`. What `di` does, without a command line.

All calls block, because each is a request or a loop over changes: in an asynchronous program
`asyncio.to_thread` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from di_cli.client.client import Client, Jobs
from di_cli.client.comparison import ComparedJobs
from di_cli.client.curves import Curve, Curves
from di_cli.client.errors import (
    BadCall,
    EndedOtherwise,
    JobsError,
    NotAllowed,
    NotFound,
    TimedOut,
    Unavailable,
)
from di_cli.client.job import Job, Logs, Why
from di_cli.client.local import LocalClient, LocalJob, local
from di_cli.client.local_sweeps import LocalSweep
from di_cli.client.options import ClusterOptions, takes
from di_cli.client.submission import What
from di_cli.client.sweeps import Sweep

__all__ = [
    "BadCall",
    "Client",
    "ComparedJobs",
    "Curve",
    "Curves",
    "EndedOtherwise",
    "Job",
    "Jobs",
    "JobsError",
    "LocalClient",
    "LocalJob",
    "LocalSweep",
    "Logs",
    "NotAllowed",
    "NotFound",
    "Sweep",
    "TimedOut",
    "Unavailable",
    "Why",
    "compare",
    "get",
    "list",
    "local",
    "optimize",
    "submit",
    "sweep",
]


@takes(ClusterOptions)
def submit(
    program: What,
    *,
    namespace: str | None = None,
    context: str | None = None,
    **options: Unpack[ClusterOptions],
) -> Job:
    """Submit a job, as `Client.submit` does; return it."""
    return Client(namespace, context).submit(program, **options)


def get(name: str, *, namespace: str | None = None, context: str | None = None) -> Job:
    """Return a job. Raises NotFound."""
    return Client(namespace, context).get(name)


def list(  # noqa: A001  # jobs.list() is what it is
    *,
    namespace: str | None = None,
    context: str | None = None,
    all_namespaces: bool = False,
    selector: str | None = None,
) -> Jobs[Job]:
    """Return the jobs of a namespace, or of all."""
    return Client(namespace, context).list(all_namespaces=all_namespaces, selector=selector)


def compare(
    *names: str,
    metric: str = "return",
    by: str = "step",
    lowest: bool = False,
    history: str | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> ComparedJobs:
    """Return a comparison of 2 to 20 jobs, as `Client.compare` does."""
    return Client(namespace, context).compare(
        *names, metric=metric, by=by, lowest=lowest, history=history
    )


def optimize(
    study: Any,
    what: str | Path | Mapping[str, Any],
    *,
    parallelism: int | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> None:
    """Run the trials that an Optuna study asks for, as `Client.optimize` does."""
    Client(namespace, context).optimize(study, what, parallelism=parallelism)


def sweep(
    what: str | Path | Mapping[str, Any],
    *,
    parallelism: int | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> Sweep:
    """Create a sweep in the cluster, as `Client.sweep` does; return it."""
    return Client(namespace, context).sweep(what, parallelism=parallelism)
