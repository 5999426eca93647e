"""Creation of a job from a manifest."""

from __future__ import annotations

from typing import Any

from di_cli.errors import from_api
from di_cli.session import Session
from di_kube.errors import ApiError
from di_kube.resources import DIJOBS, Resource

Object = dict[str, Any]


def create(session: Session, source: str, job: Object, *, dry_run: bool = False) -> Object:
    """Create a job in its own namespace, or else in the session's; return it.

    Args:
        source: where the manifest is from, for the error.
        dry_run: check everything and store nothing.

    Raises:
        CommandError: it was refused.
    """
    metadata = job.get("metadata") or {}
    version = str(job["apiVersion"]).partition("/")[2]
    resource = Resource(group=DIJOBS.group, version=version, plural=DIJOBS.plural, kind=DIJOBS.kind)
    namespace = metadata.get("namespace") or session.namespace
    what = f"{source}: DIJob {namespace}/{metadata.get('name') or metadata.get('generateName')}"
    try:
        made: Object = session.client.create(resource, job, namespace, dry_run=dry_run)
    except ApiError as error:
        raise from_api(error, what) from error
    return made
