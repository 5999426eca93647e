"""Check that the cluster has the CRD of DIJobs, with the current version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from di_api.field_error import items, mapping
from di_api.names import VERSION
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, fault, unread

_INSTALL: Final = "helm upgrade --install it, or apply charts/di-orchestrator/files: "


def check(facts: Facts) -> Iterator[Finding]:
    """Check the CRD; without permission to read it, a missing one shows in requests for jobs."""
    if facts.definition.is_missing or facts.jobs.is_missing:
        yield fault(
            "the cluster knows no DIJobs: their CRD is not installed",
            remedy=f"{_INSTALL}docs/how-to/operations.md",
        )
    elif facts.definition.is_good:
        yield from _of(facts.definition.found[0])
    else:
        yield unread(facts.definition, "the CRD of DIJobs")


def _of(definition: Object) -> Iterator[Finding]:
    versions = {
        each.get("name"): each
        for each in map(mapping, items(mapping(definition.get("spec")).get("versions")))
    }
    if not mapping(versions.get(VERSION)).get("served"):
        yield fault(
            f"the CRD of DIJobs does not serve {VERSION}",
            where=f"it serves {', '.join(str(name) for name in versions) or 'nothing'}",
            remedy=f"{_INSTALL}it is of another product, or of a version before this",
        )
    status = mapping(definition.get("status"))
    for condition in map(mapping, items(status.get("conditions"))):
        kind, value = condition.get("type"), condition.get("status")
        if kind in ("Established", "NamesAccepted") and value != "True":
            yield fault(
                f"the CRD of DIJobs is not {kind}",
                where=str(condition.get("message") or ""),
                remedy="kubectl describe crd dijobs.diengine.opendilab.org",
            )
        if kind == "Terminating" and value == "True":
            yield fault(
                "the CRD of DIJobs is being deleted, and with it every job",
                where=str(condition.get("message") or ""),
                remedy="it cannot be stopped: jobs that are to go on have to be submitted again",
            )
