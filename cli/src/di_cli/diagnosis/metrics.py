"""Check that the cluster measures the resource use of pods."""

from __future__ import annotations

from collections.abc import Iterator

from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, unread, warning


def check(facts: Facts) -> Iterator[Finding]:
    """Check metrics.k8s.io."""
    if facts.metrics.is_missing or facts.metrics.code == 503:
        yield warning(
            "the cluster does not say what pods use: di top shows what was asked for alone",
            remedy="have metrics-server installed",
        )
    elif not facts.metrics.is_good:
        yield unread(facts.metrics, "what pods use (list pods of metrics.k8s.io)")
