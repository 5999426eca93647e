"""Check the user's permissions in the namespace, by the API server's rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import GROUP, PLURAL
from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, Severity, unread, warning

NEEDED: Final = (
    ("list", GROUP, PLURAL, "di list"),
    ("get", GROUP, PLURAL, "di describe, di why"),
    ("watch", GROUP, PLURAL, "di wait, di watch"),
    ("create", GROUP, PLURAL, "di submit"),
    ("patch", GROUP, PLURAL, "di scale, di set, di suspend"),
    ("delete", GROUP, PLURAL, "di delete"),
    ("list", "", "pods", "di describe, di logs"),
    ("get", "", "pods/log", "di logs"),
    ("list", "", "events", "di events"),
)
"""Verb, API group, resource, and the commands that need it."""


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the existing permissions with the needed ones."""
    if not facts.rights.is_good:
        yield unread(facts.rights, "your rights")
        return
    status = mapping(facts.rights.found[0].get("status"))
    rules = [mapping(rule) for rule in items(status.get("resourceRules"))]
    missing = [
        f"{verb} {resource} ({use})"
        for verb, group, resource, use in NEEDED
        if not any(_allows(rule, verb, group, resource) for rule in rules)
    ]
    if not missing:
        return
    if status.get("incomplete"):
        yield Finding(
            severity=Severity.UNREAD,
            what=f"the API server does not know all your rights in {facts.namespace}; not among "
            f"those it tells: {', '.join(missing)}",
        )
        return
    yield warning(
        f"in namespace {facts.namespace} you may not {', '.join(missing)}",
        remedy="ask for the ClusterRole edit in that namespace: the chart adds jobs to it",
    )


def _allows(rule: Mapping[str, Any], verb: str, group: str, resource: str) -> bool:
    # For named objects only: not sufficient for a command.
    if items(rule.get("resourceNames")):
        return False
    return all(
        {"*", wanted} & {each for each in items(rule.get(key)) if isinstance(each, str)}
        for key, wanted in (("verbs", verb), ("apiGroups", group), ("resources", resource))
    )
