"""di top."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from di_api.field_error import mapping
from di_api.names import LABEL_JOB
from di_api.wording import listed
from di_cli.commands.options import Context, Local, Namespace, complete_job
from di_cli.errors import CommandError
from di_cli.output import note, print_table, say, suggest
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views import top as views
from di_cli.views.jobs import gpus_of
from di_kube.errors import ApiError, NotFound, Unavailable
from di_kube.resources import GPU_METRICS, POD_METRICS, PODS

_NAMES_SHOWN: Final = 3
_OneOrAll = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]",
        help="The job's name; absent: all jobs of the namespace.",
        autocompletion=complete_job,
    ),
]


def top(
    name: _OneOrAll = None,
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
) -> None:
    """Show the resource use of a job's pods, or of all jobs."""
    with open_session(namespace, context, job=name, local=local) as session:
        if name is None:
            _check_cluster(session)
            selector = LABEL_JOB
            pods = session.client.list(PODS, session.namespace, label_selector=selector)[0]
        else:
            job, pods = session.job(name), session.pods(name)
            _check_cluster(session)
            selector = f"{LABEL_JOB}={job['metadata']['name']}"
        metrics = _metrics(session, selector)
        if not pods:
            say(f"dijob/{name} has no pods" if name else f"no job in {session.namespace} has pods")
            suggest(f"di why {name}" if name else "di list")
            return
        shares = _gpu_shares(session, selector, pods)
        header, rows = (views.by_pod if name else views.by_job)(pods, metrics, shares)
        print_table(Table(header=header, rows=rows, optional=views.optional(header)))
        if missing := views.unmeasured(pods, metrics):
            note(
                f"not measured yet: {listed(missing, _NAMES_SHOWN)}; metrics-server needs two "
                "measurements of a container"
            )
        suggest(f"di describe {name}" if name else "di top JOB")


def _check_cluster(session: Session) -> None:
    if session.run is not None:
        raise CommandError(
            "the resource use of a run on this machine is not measured",
            remedy="top; each container is a process here",
        )


def _metrics(session: Session, selector: str) -> list[dict[str, Any]]:
    try:
        return session.client.list(POD_METRICS, session.namespace, label_selector=selector)[0]
    except NotFound as error:
        raise CommandError(
            "this cluster does not measure the resource use of pods",
            where=error.message,
            remedy="have metrics-server installed",
        ) from error
    except Unavailable as error:
        raise CommandError(
            "metrics-server does not respond",
            where=error.message,
            remedy="kubectl describe apiservice v1beta1.metrics.k8s.io",
        ) from error


def _gpu_shares(session: Session, selector: str, pods: Iterable[views.Object]) -> dict[str, float]:
    """Return the use of GPUs in percent, by pod; empty if it is not measured or not readable."""
    if not any(gpus_of(mapping(pod.get("spec"))) for pod in pods):
        return {}
    try:
        values, _ = session.client.list(GPU_METRICS, session.namespace, label_selector=selector)
    except ApiError:
        return {}
    shares = map(views.gpu_share, values)
    return {pod: percent for pod, percent in shares if percent is not None}
