"""Deletion of a job."""

from __future__ import annotations

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.live.follow import follow
from di_cli.session import Session
from di_kube.resources import DIJOBS


def delete(session: Session, name: str, *, wait: bool = False) -> None:
    """Delete a job; with `wait` the job remains until its pods are gone."""
    propagation = "Foreground" if wait else "Background"
    session.client.delete(DIJOBS, name, session.namespace, propagation=propagation)


def wait_until_gone(session: Session, name: str, seconds: float | None) -> None:
    """Return when a deleted job is gone. Raises CommandError after that time."""
    seen = follow(session, namespace=session.namespace, name=name, seconds=seconds)
    if any(not jobs for jobs in seen) or session.is_over:
        return
    raise CommandError(
        f"dijob/{name} is still there after {seconds:g} s",
        remedy=f"di describe {name}",
        code=ExitCode.TIMED_OUT,
    )
