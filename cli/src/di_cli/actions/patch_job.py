"""Patch of a job that depends on what it is at present."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from di_cli.session import Session
from di_kube.errors import Conflict
from di_kube.resources import DIJOBS
from di_kube.wire import JSON_PATCH

TRIES: Final = 5
"""How often a job is read and patched while others change it in between."""

Object = Mapping[str, Any]


def patch_job(
    session: Session, name: str, operations: Callable[[Object], list[dict[str, Any]]]
) -> dict[str, Any]:
    """Return the job after a JSON patch, which is made again if the job has changed meanwhile.

    Args:
        session: with the cluster.
        name: of the job.
        operations: returns the patch for a job, with its resourceVersion among the operations.

    Raises:
        Conflict: the job changed each time.
        ApiError: the job cannot be read, or the patch is refused.
    """
    tries = TRIES
    while True:
        patch, tries = operations(session.job(name)), tries - 1
        try:
            return session.client.patch(
                DIJOBS, name, patch, session.namespace, content_type=JSON_PATCH
            )
        except Conflict:
            if not tries:
                raise
