"""Check that the namespace has quota left."""

from __future__ import annotations

from collections.abc import Iterator

from di_api.field_error import mapping
from di_api.quantity import parse_quantity
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, unread, warning


def check(facts: Facts) -> Iterator[Finding]:
    """Check for used-up quotas; a limit of 0 is intended."""
    if not facts.quotas.is_good:
        yield unread(facts.quotas, f"the quotas of namespace {facts.namespace}")
        return
    for quota in facts.quotas.found:
        full = list(_full(quota))
        if full:
            name = mapping(quota.get("metadata")).get("name")
            yield warning(
                f"a quota of namespace {facts.namespace} is used up: {', '.join(full)}",
                where=f"ResourceQuota {name}",
                remedy=f"kubectl describe quota -n {facts.namespace}: end what is not needed, or "
                "have it raised",
            )


def _full(quota: Object) -> Iterator[str]:
    status = mapping(quota.get("status"))
    used = mapping(status.get("used"))
    for resource, hard in mapping(status.get("hard")).items():
        try:
            limit, taken = parse_quantity(hard), parse_quantity(used.get(resource, "0"))
        except ValueError:
            continue
        if 0 < limit <= taken:
            yield f"{resource} {used.get(resource)} of {hard}"
