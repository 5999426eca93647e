"""Check that the release is complete, has one version, and that its pods are ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from di_api.field_error import mapping
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, fault, unread, warning

COMPONENTS: Final[Mapping[str, str]] = {
    "operator": "nobody makes pods of jobs, or keeps their status",
    "webhook": "jobs are stored without a review by the webhook",
    "server": "jobs cannot be scaled by REST, and report nothing",
}
"""Effect of each component's absence."""
_LABEL: Final = "app.kubernetes.io"


def check(facts: Facts) -> Iterator[Finding]:
    """Check the Deployments, and their versions and the CRD's."""
    if not facts.deployments.is_good:
        yield unread(facts.deployments, "Deployments")
        return
    found = facts.deployments.found
    if not found:
        yield fault(
            "no release of DI Orchestrator is there",
            where="no Deployment has the label app.kubernetes.io/name=di-orchestrator",
            remedy="helm install it: docs/how-to/operations.md; --system-namespace names its own",
        )
        return
    present = {_label(each, "component") for each in found}
    for component, consequence in COMPONENTS.items():
        if component not in present:
            severe = fault if component == "operator" else warning
            yield severe(
                f"the release has no di-{component}: {consequence}",
                remedy=f"helm upgrade it with {component}.enabled=true",
            )
    for deployment in found:
        yield from _pods(deployment)
    yield from _versions(facts, found)


def _pods(deployment: Object) -> Iterator[Finding]:
    spec, status = mapping(deployment.get("spec")), mapping(deployment.get("status"))
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas") or 0
    name, where = _name(deployment), f"Deployment {_path(deployment)}"
    look = f"kubectl get pods -n {_namespace(deployment)} -l {_LABEL}/component={name[3:]}"
    if wanted == 0:
        yield fault(
            f"{name} is scaled to none: {COMPONENTS.get(name[3:], 'it does nothing')}",
            where=where,
            remedy=f"kubectl scale -n {_namespace(deployment)} deployment/{name} --replicas=2",
        )
    elif isinstance(wanted, int) and isinstance(ready, int) and ready < wanted:
        severe = warning if ready else fault
        yield severe(f"{ready} of {wanted} pods of {name} are ready", where=where, remedy=look)
    if spec.get("paused") is True:
        yield warning(
            f"the rollout of {name} is paused: no change of it takes effect",
            where=where,
            remedy=f"kubectl rollout resume -n {_namespace(deployment)} deployment/{name}",
        )


def _versions(facts: Facts, deployments: Sequence[Object]) -> Iterator[Finding]:
    releases: dict[tuple[str, str], dict[str, set[str]]] = {}
    for each in deployments:
        release = releases.setdefault((_namespace(each), _label(each, "instance")), {})
        release.setdefault(_label(each, "version"), set()).add(_name(each))
    for (namespace, instance), versions in releases.items():
        if len(versions) > 1:
            told = ", ".join(
                f"{' and '.join(sorted(names))} {version}"
                for version, names in sorted(versions.items())
            )
            yield warning(
                f"services of release {namespace}/{instance} have different versions: {told}",
                remedy=f"finish the upgrade, or roll back: helm history {instance} -n {namespace}",
            )
    services = {version for release in releases.values() for version in release}
    crd = {_label(each, "version") for each in facts.definition.found} - {""}
    if crd and not crd & services:
        yield warning(
            f"the CRD of DIJobs is of version {', '.join(crd)}, the services of "
            f"{', '.join(sorted(services))}",
            remedy="apply the CRDs of that chart first: "
            "docs/how-to/operations.md, Upgrade and rollback",
        )
    if facts.program and facts.program not in services:
        yield warning(
            f"di is of version {facts.program}, the services of {', '.join(sorted(services))}",
            remedy="install the di of the same version",
        )


def _label(obj: Object, key: str) -> str:
    labels = mapping(mapping(obj.get("metadata")).get("labels"))
    return str(labels.get(f"{_LABEL}/{key}") or "")


def _name(obj: Object) -> str:
    return str(mapping(obj.get("metadata")).get("name") or "")


def _namespace(obj: Object) -> str:
    return str(mapping(obj.get("metadata")).get("namespace") or "")


def _path(obj: Object) -> str:
    return f"{_namespace(obj)}/{_name(obj)}"
