"""The templates of jobs in a cluster."""

from __future__ import annotations

from typing import Any

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.session import Session
from di_kube.errors import Forbidden, NotFound
from di_kube.resources import CLUSTER_JOB_TEMPLATES, JOB_TEMPLATES

Object = dict[str, Any]


def templates(session: Session) -> list[Object]:
    """Return the templates that jobs of the namespace can have, by name.

    One of the namespace hides one of the cluster with the same name. Those that the user cannot
    read are left out.
    """
    found: dict[str, Object] = {}
    for resource in (CLUSTER_JOB_TEMPLATES, JOB_TEMPLATES):
        namespace = session.namespace if resource.namespaced else None
        try:
            listed, _ = session.client.list(resource, namespace)
        except (Forbidden, NotFound):
            continue
        for each in listed:
            found[str(each["metadata"]["name"])] = {**each, "kind": resource.kind}
    return [found[name] for name in sorted(found)]


def template(session: Session, name: str) -> Object:
    """Return the template of a name: of the namespace, else of the cluster. Raises CommandError."""
    for resource in (JOB_TEMPLATES, CLUSTER_JOB_TEMPLATES):
        namespace = session.namespace if resource.namespaced else None
        try:
            return {**session.client.get(resource, name, namespace), "kind": resource.kind}
        except NotFound:
            continue
    known = ", ".join(each["metadata"]["name"] for each in templates(session))
    raise CommandError(
        f"there is no template {name} in namespace {session.namespace} or the cluster",
        where=f"templates there: {known}" if known else "there is none at all",
        remedy="di templates",
        code=ExitCode.NOT_FOUND,
    )
