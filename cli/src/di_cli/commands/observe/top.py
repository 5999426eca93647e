"""di top."""

from __future__ import annotations

from di_api.names import LABEL_JOB
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.errors import CommandError
from di_cli.output import print_table, say, suggest
from di_cli.render.table import Table
from di_cli.session import open_session
from di_cli.views import top as views
from di_kube.errors import NotFound, Unavailable
from di_kube.resources import POD_METRICS


def top(
    name: JobName, *, namespace: Namespace = None, context: Context = None, local: Local = None
) -> None:
    """Show what the pods of a job use, beside what they requested."""
    with open_session(namespace, context, job=name, local=local) as session:
        job, pods = session.job(name), session.pods(name)
        if session.run is not None:
            raise CommandError(
                "what the pods of a run on this machine use is not measured",
                remedy="top; each container is a process here",
            )
        selector = f"{LABEL_JOB}={job['metadata']['name']}"
        try:
            metrics, _ = session.client.list(
                POD_METRICS, session.namespace, label_selector=selector
            )
        except (NotFound, Unavailable) as error:
            raise CommandError(
                "this cluster does not tell what pods use",
                where=error.message,
                remedy="have metrics-server installed; di describe shows what was asked for",
            ) from error
        if not pods:
            say(f"dijob/{name} has no pods")
            suggest(f"di why {name}")
            return
        print_table(Table(header=views.HEADER, rows=views.rows(pods, metrics)))
        suggest(f"di describe {name}")
