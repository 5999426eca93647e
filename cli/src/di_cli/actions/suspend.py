"""Suspension of a job."""

from __future__ import annotations

from typing import Any

from di_api.names import ANNOTATION_SUSPENDED_BY
from di_cli.session import Session
from di_kube.resources import DIJOBS

Object = dict[str, Any]


def set_suspended(session: Session, name: str, *, value: bool) -> Object:
    """Suspend a job, or let it continue; return the job."""
    # A job that its queue keeps suspended leaves the queue.
    mine = {"metadata": {"annotations": {ANNOTATION_SUSPENDED_BY: None}}} if value else {}
    patch = {**mine, "spec": {"suspend": value}}
    changed: Object = session.client.patch(DIJOBS, name, patch, session.namespace)
    return changed
