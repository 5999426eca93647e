"""Check that an operator is leader, by its Lease."""

from __future__ import annotations

from collections.abc import Iterator

from di_api.field_error import mapping
from di_api.names import OPERATOR_NAME
from di_api.timestamps import parse_time
from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, fault, unread

_USUAL_DURATION = 15.0
"""Seconds, if the Lease has no duration."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check the Lease."""
    if not facts.leases.is_good:
        yield unread(facts.leases, f"the Leases of namespace {facts.system}")
        return
    found = next(
        (
            mapping(each.get("spec"))
            for each in facts.leases.found
            if mapping(each.get("metadata")).get("name") == OPERATOR_NAME
        ),
        None,
    )
    where = f"Lease {facts.system}/{OPERATOR_NAME}"
    remedy = (
        f"kubectl logs -n {facts.system} -l app.kubernetes.io/component=operator --prefix; jobs "
        "that run go on"
    )
    if found is None:
        yield fault("no operator has ever led here", where=where, remedy=remedy)
        return
    if not found.get("holderIdentity"):
        yield fault("no operator leads: the last one has given it up", where=where, remedy=remedy)
        return
    renewed = parse_time(found.get("renewTime"))
    lasts = found.get("leaseDurationSeconds")
    limit = 2 * (lasts if isinstance(lasts, int) else _USUAL_DURATION)
    age = (facts.now - renewed).total_seconds() if renewed else None
    if age is None or age > limit:
        since = "ever" if age is None else f"for {age:.0f} s"
        yield fault(
            f"no operator leads: {found['holderIdentity']} has not renewed its Lease {since}",
            where=where,
            remedy=remedy,
        )
