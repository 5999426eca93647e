"""Suspension of a job."""

from __future__ import annotations

from typing import Any

from di_api.field_error import mapping
from di_api.names import ANNOTATION_SUSPENDED_BY, LABEL_JOB
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.live.follow import follow
from di_cli.session import Session
from di_kube.resources import DIJOBS, PODS

Object = dict[str, Any]


def set_suspended(session: Session, name: str, *, value: bool) -> Object:
    """Suspend a job, or let it continue; return the job."""
    # A job that its queue keeps suspended leaves the queue.
    mine = {"metadata": {"annotations": {ANNOTATION_SUSPENDED_BY: None}}} if value else {}
    patch = {**mine, "spec": {"suspend": value}}
    changed: Object = session.client.patch(DIJOBS, name, patch, session.namespace)
    return changed


def wait_until_stopped(session: Session, name: str, seconds: float | None) -> None:
    """Return when no pod of a suspended job runs. Raises CommandError after that time."""
    found = follow(
        session,
        namespace=session.namespace,
        selector=f"{LABEL_JOB}={name}",
        seconds=seconds,
        resource=PODS,
    )
    for pods in found:
        phases = (mapping(pod.get("status")).get("phase") for pod in pods.values())
        if all(phase in ("Succeeded", "Failed") for phase in phases):
            return
    if not session.is_over:
        raise CommandError(
            f"dijob/{name} still has pods after {seconds:g} s",
            remedy=f"di describe {name}",
            code=ExitCode.TIMED_OUT,
        )
