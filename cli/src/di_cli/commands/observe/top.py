"""di top."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from di_api.field_error import mapping
from di_api.names import LABEL_JOB
from di_api.wording import listed
from di_cli.commands.options import AllNamespaces, Context, Local, Namespace, complete_job
from di_cli.errors import CommandError
from di_cli.output import note, print_table, say, suggest
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views import top as views
from di_cli.views.jobs import Key, gpus_of, key_of
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
    all_namespaces: AllNamespaces = False,
    context: Context = None,
    local: Local = None,
) -> None:
    """Show the resource use of a job's pods, or of all jobs."""
    if name is not None and all_namespaces:
        raise typer.BadParameter("-A is for all jobs; one has a namespace: -n NAMESPACE")
    with open_session(namespace, context, job=name, local=local) as session:
        where = None if all_namespaces else session.namespace
        if name is None:
            _check_cluster(session)
            selector = LABEL_JOB
            pods = session.client.list(PODS, where, label_selector=selector)[0]
        else:
            job, pods = session.job(name), session.pods(name)
            _check_cluster(session)
            selector = f"{LABEL_JOB}={job['metadata']['name']}"
        metrics = _metrics(session, where, selector)
        if not pods:
            place = f"in {where}" if where else "in any namespace"
            say(f"dijob/{name} has no pods" if name else f"no job {place} has pods")
            suggest(f"di why {name}" if name else "di list")
            return
        shares = _gpu_shares(session, selector, pods)
        header, rows = (
            views.by_pod(pods, metrics, shares)
            if name
            else views.by_job(pods, metrics, shares, namespaces=all_namespaces)
        )
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


def _metrics(session: Session, namespace: str | None, selector: str) -> list[dict[str, Any]]:
    try:
        return session.client.list(POD_METRICS, namespace, label_selector=selector)[0]
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


def _gpu_shares(session: Session, selector: str, pods: Iterable[views.Object]) -> dict[Key, float]:
    """Return the use of GPUs in percent, by pod; empty where it is not measured or readable."""
    found: dict[Key, float] = {}
    # The API of custom metrics has no collection of all namespaces.
    for namespace in sorted({key_of(pod)[0] for pod in pods if gpus_of(mapping(pod.get("spec")))}):
        try:
            values, _ = session.client.list(GPU_METRICS, namespace, label_selector=selector)
        except ApiError:
            continue
        shares = map(views.gpu_share, values)
        found |= {(namespace, pod): percent for pod, percent in shares if percent is not None}
    return found
