"""di export."""

from __future__ import annotations

import os
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time
from di_cli.access.history import History, HistoryAddress
from di_cli.actions.history import open_history
from di_cli.commands.history_options import NO_HISTORY, reads_history
from di_cli.commands.options import Context, JobNames, Namespace
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.export.kept import Kept, read_kept
from di_cli.export.mlflow import URL_VARIABLE, MlflowServer
from di_cli.export.otlp import send_metrics
from di_cli.export.points import points_of
from di_cli.export.tensorboard import write_events
from di_cli.output import note, say
from di_cli.session import open_session

_STATUS: Final = {Phase.SUCCEEDED.value: "FINISHED", Phase.FAILED.value: "FAILED"}
"""Status of a run of MLflow by the phase of a job that has ended."""


@reads_history(without="only the last report, which the cluster has")
def export(
    names: JobNames,
    *,
    tensorboard: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Event files for TensorBoard, a folder for each job."),
    ] = None,
    mlflow: Annotated[
        str | None, typer.Option(metavar="URL", help="MLflow server; a run for each job.")
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Collector of OTLP metrics over HTTP."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(help="Experiment of MLflow; absent: the namespace's name.")
    ] = None,
    address: HistoryAddress,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Write the curves of jobs for TensorBoard, MLflow or OTLP."""
    is_elsewhere = tensorboard is not None or otlp is not None
    url = mlflow or (None if is_elsewhere else os.environ.get(URL_VARIABLE))
    if not is_elsewhere and not url:
        raise CommandError(
            "di export needs a destination",
            remedy=f"--tensorboard FOLDER, --mlflow URL (or {URL_VARIABLE}), or --otlp URL",
            code=ExitCode.USAGE,
        )
    for given, what, option in (
        (url, "server of MLflow", "--mlflow http://HOST:PORT"),
        (otlp, "receiver of OTLP over HTTP", "--otlp http://HOST:4318"),
    ):
        if given and not given.startswith(("http://", "https://")):
            raise CommandError(f"{given} is no {what}", remedy=option, code=ExitCode.USAGE)
    with ExitStack() as opened:
        session = opened.enter_context(open_session(namespace, context))
        history: History | None = None
        if address.server != NO_HISTORY:
            history = opened.enter_context(open_history(session, address, context=context))
        for name in dict.fromkeys(names):
            kept = read_kept(session, history, name)
            if not kept.reports.times:
                note(f"{name} has reported nothing")
                continue
            if history is not None and kept.history is None:
                note(f"di-history does not have {name}: only its last report is exported")
            if tensorboard is not None:
                folder = tensorboard / session.namespace / name
                folder.parent.mkdir(parents=True, exist_ok=True)
                say(f"{name}: {write_events(kept.reports, folder)} points in {folder}")
            if url:
                place = experiment or session.namespace
                say(f"{name}: {_to_mlflow(url.rstrip('/'), kept, session.namespace, place)}")
            if otlp:
                place = otlp.rstrip("/")
                count = send_metrics(
                    points_of(kept.reports),
                    place,
                    namespace=session.namespace,
                    name=name,
                    uid=kept.uid,
                )
                say(f"{name}: {count} points to {place}")


def _to_mlflow(url: str, kept: Kept, namespace: str, experiment: str) -> str:
    phase, ended = _end_of(kept)
    return MlflowServer(url).export(
        points_of(kept.reports),
        experiment=experiment,
        run=kept.name,
        uid=kept.uid,
        tags={"di.job": kept.name, "di.namespace": namespace, "di.phase": phase or "Pending"},
        started=kept.reports.times[0],
        ended=ended,
        status="RUNNING" if ended is None else _STATUS.get(phase, "KILLED"),
    )


def _end_of(kept: Kept) -> tuple[str, datetime | None]:
    """Return the phase of a job and its end; None if it has not ended."""
    if kept.job is not None:
        status = mapping(kept.job.get("status"))
        return str(status.get("phase") or ""), parse_time(status.get("completionTimestamp"))
    record = mapping(mapping(kept.history).get("job"))
    ended = parse_time(record.get("completed")) or parse_time(record.get("deleted"))
    return str(record.get("phase") or ""), ended
