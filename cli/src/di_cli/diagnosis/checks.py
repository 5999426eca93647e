"""All topics, in display order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from di_cli.diagnosis import (
    certificates,
    clocks,
    cluster,
    definition,
    installation,
    jobs,
    local,
    metrics,
    nodes,
    operator,
    quota,
    rights,
    server,
    webhook,
)
from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, Severity

Check: TypeAlias = Callable[[Facts], Iterator[Finding]]

CHECKS: Final[Mapping[str, Check]] = {
    "cluster": cluster.check,
    "clocks": clocks.check,
    "rights": rights.check,
    "definition": definition.check,
    "installation": installation.check,
    "operator": operator.check,
    "webhook": webhook.check,
    "certificates": certificates.check,
    "server": server.check,
    "nodes": nodes.check,
    "quota": quota.check,
    "jobs": jobs.check,
    "metrics": metrics.check,
    "local": local.check,
}
"""Checks by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings of a topic; empty: no problem."""

    topic: str
    findings: tuple[Finding, ...]


def diagnose(facts: Facts) -> list[Report]:
    """Check every topic; if the API server does not respond, only that is reported."""
    if facts.is_unreachable:
        return [Report(topic="cluster", findings=tuple(cluster.check(facts)))]
    return [Report(topic=topic, findings=tuple(check(facts))) for topic, check in CHECKS.items()]


def count(reports: list[Report], severity: Severity) -> int:
    """Return the number of findings with this severity."""
    return sum(each.severity is severity for report in reports for each in report.findings)
