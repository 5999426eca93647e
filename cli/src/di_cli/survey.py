"""Reads the input of `di doctor`: one request each, none of which changes anything."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import (
    API_VERSION,
    DI_CONTAINER,
    GROUP,
    KIND,
    LABEL_OPERATOR,
    OPERATOR_NAME,
    PLURAL,
    SERVER_NAME,
    SERVER_PORT,
    SERVER_TLS_PORT,
    SYSTEM_NAMESPACE,
)
from di_cli.access.local_runs import known_runs
from di_cli.diagnosis import Answer, Facts
from di_cli.reader import Reader
from di_cli.session import Session
from di_kube.resources import (
    CRDS,
    DEPLOYMENTS,
    DIJOBS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    POD_METRICS,
    PODS,
    QUOTAS,
    SELF_RULES_REVIEWS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from di_kube.wire import Target

OF_RELEASES: Final = "app.kubernetes.io/name=di-orchestrator"
"""Label of all objects of the chart."""
_OF_NODES: Final = "kube-node-lease"
VERSION: Final = Resource(group="", version="v1", plural="version", kind="version")
_TEMPLATE: Final = {"spec": {"containers": [{"name": DI_CONTAINER, "image": "example/none"}]}}
REFUSED_JOB: Final[dict[str, Any]] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    # The CRD allows this name; the webhook refuses it, because the names of its pods would be too
    # long.
    "metadata": {"name": "p" * 60},
    "spec": {"tasks": [{"type": "learner", "template": _TEMPLATE}]},
}


def survey(session: Session, system: str | None = None) -> Facts:
    """Read everything that the user can read.

    Args:
        session: with the namespace of the user's jobs.
        system: namespace of the release, if not that of its Deployments.
    """
    reader = Reader(session)
    told = reader.path("/version", Target(VERSION, None, "/version"))
    now = local_now()
    alone = Facts(
        namespace=session.namespace,
        system=system or SYSTEM_NAMESPACE,
        now=now,
        local_now=now,
        version=told,
    )
    if alone.is_unreachable:
        return alone
    deployments = reader.list(DEPLOYMENTS, system, selector=OF_RELEASES)
    validating = reader.list(VALIDATING_WEBHOOKS, selector=OF_RELEASES)
    where = system or _namespace_of(deployments, validating)
    if deployments.is_refused and system is None:
        deployments = reader.list(DEPLOYMENTS, where, selector=OF_RELEASES)
    # Pods first: a job that is created meanwhile gets its pods after it.
    pods = reader.list(PODS, session.namespace, selector=f"{LABEL_OPERATOR}={OPERATOR_NAME}")
    return Facts(
        namespace=session.namespace,
        system=where,
        program=_program(),
        version=told,
        rights=reader.create(SELF_RULES_REVIEWS, {"spec": {"namespace": session.namespace}}),
        definition=reader.get(CRDS, f"{PLURAL}.{GROUP}"),
        mutating=reader.list(MUTATING_WEBHOOKS, selector=OF_RELEASES),
        validating=validating,
        deployments=deployments,
        leases=reader.list(LEASES, where),
        refusal=reader.create(DIJOBS, REFUSED_JOB, session.namespace, dry_run=True),
        server=_server(reader, where),
        nodes=reader.list(NODES),
        node_leases=reader.list(LEASES, _OF_NODES),
        quotas=reader.list(QUOTAS, session.namespace),
        pods=pods,
        jobs=reader.list(DIJOBS, session.namespace),
        metrics=reader.list(POD_METRICS, session.namespace),
        killed_runs=_killed_runs(),
        now=session.now(),
        local_now=local_now(),
    )


def local_now() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


def _server(reader: Reader, namespace: str) -> Answer:
    """Return di-server's readiness; over plain HTTP if it serves no other."""
    found = Answer(code=404)
    for scheme, port in (("https", SERVER_TLS_PORT), ("http", SERVER_PORT)):
        name = f"{scheme}:{SERVER_NAME}:{port}"
        path = f"{SERVICES.path(namespace)}/{name}/proxy/readyz"
        found = reader.path(path, Target(SERVICES, namespace, SERVER_NAME))
        if "no service port" not in found.words:
            break
    return found


def _namespace_of(deployments: Answer, configurations: Answer) -> str:
    for deployment in deployments.found:
        if namespace := mapping(deployment.get("metadata")).get("namespace"):
            return str(namespace)
    for configuration in configurations.found:
        for hook in map(mapping, items(configuration.get("webhooks"))):
            service = mapping(mapping(hook.get("clientConfig")).get("service"))
            if namespace := service.get("namespace"):
                return str(namespace)
    return SYSTEM_NAMESPACE


def _killed_runs() -> tuple[str, ...]:
    return tuple(
        str(run.directory)
        for run in known_runs()
        if run.kubeconfig.exists() and not run.is_under_way
    )


def _program() -> str:
    """Return the version of `di`; empty if it is not installed as a package."""
    try:
        return version("di-cli")
    except PackageNotFoundError:
        return ""
