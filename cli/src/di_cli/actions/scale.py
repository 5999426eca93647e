"""Change of the number of replicas of a task."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from di_cli.access.credentials import Login, login_for
from di_cli.access.rest import scale_by_rest
from di_cli.actions.patch_job import patch_job
from di_cli.edits.scaling import Scaling, ScalingError, Wish, scaling
from di_cli.errors import CommandError
from di_cli.session import Session


def scale(session: Session, name: str, wish: Wish) -> str:
    """Scale a task; return a description of the change. Raises CommandError."""
    try:
        return _scale(session, name, wish)
    except ScalingError as error:
        raise CommandError(
            f"dijob/{name} was not scaled",
            where=str(error),
            remedy=f"di set {name} {error.assignment}"
            if error.assignment
            else f"di describe {name}",
        ) from error


def _scale(session: Session, name: str, wish: Wish) -> str:
    """Scale through di-server if the user has logged in to it, else by a patch of the job."""
    login = login_for(session.access.config.server, session.namespace, datetime.now(UTC))
    if login is not None:
        return _by_server(session, login, name, wish)
    found: Scaling

    def operations(job: Mapping[str, Any]) -> list[dict[str, Any]]:
        nonlocal found
        found = scaling(job, wish)
        return found.patch

    patch_job(session, name, operations)
    return _told(f"{found.task} {found.before} -> {found.after}", found.warning)


def _by_server(session: Session, login: Login, name: str, wish: Wish) -> str:
    """Scale through di-server; a relative change of a named task needs no permission to read the
    job.
    """
    if wish.task is not None and wish.is_relative and wish.count:
        task, delta = wish.task, wish.count
    else:
        found = scaling(session.job(name), wish)
        task, delta = found.task, found.after - found.before
        if not delta:
            return f"{task} has {found.after} already"
    after, warning = scale_by_rest(login, f"{session.namespace}.{name}", task, delta)
    return _told(f"{task} {after - delta} -> {after}, by di-server", warning)


def _told(change: str, warning: str | None) -> str:
    return change if warning is None else f"{change}; {warning}"
