"""Check for killed local runs, whose remains were not removed."""

from __future__ import annotations

from collections.abc import Iterator

from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, warning


def check(facts: Facts) -> Iterator[Finding]:
    """Check for remains."""
    for directory in facts.killed_runs:
        yield warning(
            "a run on this machine ended without clearing away after itself",
            where=directory,
            remedy=f"look at its logs there, then rm -r {directory}",
        )
