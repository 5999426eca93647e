"""Check that the API server responds, and has a supported version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from di_cli.diagnosis.facts import Facts
from di_cli.diagnosis.finding import Finding, fault, unread

OLDEST: Final = (1, 30)
"""Minimum version of Kubernetes in docs/how-to/operations.md."""


def check(facts: Facts) -> Iterator[Finding]:
    """Check the API server."""
    answer = facts.version
    if answer.code == 0:
        yield fault(
            "the API server does not answer",
            where=answer.words,
            remedy="check the network and the context: kubectl cluster-info, di doctor --context",
        )
        return
    if answer.code == 401:
        yield fault(
            "the API server does not know you",
            remedy="log in again; kubectl auth whoami shows as whom you came",
        )
        return
    if not answer.is_good:
        yield unread(answer, "the version of the API server")
        return
    told = answer.found[0]
    parts = [re.match(r"\d+", str(told.get(key) or "")) for key in ("major", "minor")]
    numbers = tuple(int(part[0]) for part in parts if part)
    if len(numbers) == len(OLDEST) and numbers < OLDEST:
        yield fault(
            f"Kubernetes {told.get('gitVersion')} is older than {OLDEST[0]}.{OLDEST[1]}",
            remedy="upgrade the cluster: admission policies and probes of the chart need it",
        )
