"""Jobs from Python: `from di_orchestrator import jobs`. What `di` does, without a command line.

All calls block, because each is a request or a loop over changes: in an asynchronous program
`asyncio.to_thread` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from di_cli.client.client import Client, Jobs
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
from di_cli.client.submission import Arguments, What

__all__ = [
    "BadCall",
    "Client",
    "Curve",
    "Curves",
    "EndedOtherwise",
    "Job",
    "Jobs",
    "JobsError",
    "LocalClient",
    "LocalJob",
    "Logs",
    "NotAllowed",
    "NotFound",
    "TimedOut",
    "Unavailable",
    "Why",
    "get",
    "list",
    "local",
    "submit",
]


def submit(
    program: What,
    *,
    args: Arguments = (),
    name: str | None = None,
    image: str | Mapping[str, str] | None = None,
    entry: str | None = None,
    requirements: str | Path | None = None,
    learners: int = 1,
    collectors: int = 0,
    evaluators: int = 0,
    gpus: int = 0,
    replicas: Mapping[str, int] | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> Job:
    """Submit a job, as `Client.submit` does; return it."""
    return Client(namespace, context).submit(
        program,
        args=args,
        name=name,
        image=image,
        entry=entry,
        requirements=requirements,
        learners=learners,
        collectors=collectors,
        evaluators=evaluators,
        gpus=gpus,
        replicas=replicas,
    )


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
