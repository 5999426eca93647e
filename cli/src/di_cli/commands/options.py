"""Arguments and options that several commands share, and their shell completion."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

import typer

from di_cli.durations import read_duration
from di_cli.output import Output

_COMPLETION_SECONDS: Final = 2.0


def complete_job(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the namespace's jobs; empty if they are not available at once."""
    from di_cli.access.local_runs import meant_runs  # noqa: PLC0415
    from di_cli.errors import CommandError  # noqa: PLC0415
    from di_cli.session import open_session  # noqa: PLC0415
    from di_kube.resources import DIJOBS  # noqa: PLC0415  # only while completing

    given = ctx.params
    namespace, context = given.get("namespace"), given.get("context")
    runs = meant_runs(None, namespace=namespace, context=context, local=context is None)
    names = {run.job for run in runs}
    # An unreachable cluster offers no names.
    with suppress(CommandError), open_session(namespace, context) as session:
        found, _ = session.client.list(DIJOBS, session.namespace, timeout=_COMPLETION_SECONDS)
        names |= {str(job["metadata"]["name"]) for job in found}
    return sorted(name for name in names if name.startswith(incomplete))


def _complete_context(incomplete: str) -> list[str]:
    from di_cli.access.kubeconfig import context_names  # noqa: PLC0415  # only while completing

    return [name for name in context_names() if name.startswith(incomplete)]


JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's name.", autocompletion=complete_job)
]
JobNames = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="The jobs.", autocompletion=complete_job)
]
Selector = Annotated[
    str | None, typer.Option("--selector", "-l", help="Only jobs with these labels.")
]
JobOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", help="The job's name; absent: all ended ones.", autocompletion=complete_job
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace; absent: that of the context."),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="CLAIM",
        help="Claim for code above 8400 KiB; absent: that of the job or the namespace.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="Context of the kubeconfig; absent: the current one.",
        autocompletion=_complete_context,
    ),
]


def duration_of(text: str | float) -> float:
    """Return the seconds of a duration such as 90s; a wrong one is an error of usage."""
    try:
        return read_duration(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        parser=duration_of,
        metavar="DURATION",
        help="How long to wait: seconds, or 90s, 5m, 1h30m.",
    ),
]
Quotas = Annotated[
    bool,
    typer.Option("--quotas", help="Show the allocator's queues of namespaces instead."),
]
Local = Annotated[
    bool | None,
    typer.Option(
        "--local/--cluster",
        help="Use a local run, or the cluster; absent: the local run, if there is one with the "
        "name.",
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="The jobs of all namespaces.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="NAME[:JSON]", help="Allocation policy; absent: the cluster's."
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        "--system-namespace",
        metavar="NAMESPACE",
        help="Namespace of the release; absent: where doctor and bundle find it, else di-system.",
    ),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
Task = Annotated[
    str | None, typer.Option("--task", "-t", help="Only the pods of one task.", metavar="TASK")
]
