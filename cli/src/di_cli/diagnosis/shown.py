"""Output of `di doctor`: lines for people, and an object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from di_cli.diagnosis.checks import Report
from di_cli.diagnosis.finding import Finding, Severity

_WELL: Final = "ok"
_LONGEST: Final = 300
_NAMES: Final = (
    (Severity.FAULT, "fault", "faults"),
    (Severity.WARNING, "warning", "warnings"),
    (Severity.UNREAD, "not looked at", "not looked at"),
)


def lines(reports: Sequence[Report]) -> Iterator[str]:
    """Yield a line for each topic without problems, and up to three for each finding."""
    width = max((len(report.topic) for report in reports), default=0)
    for report in reports:
        if not report.findings:
            yield f"{_WELL.ljust(7)}  {report.topic}"
        for finding in report.findings:
            yield f"{finding.severity.ljust(7)}  {report.topic.ljust(width)}  {finding.what}"
            margin = " " * (7 + 2 + width + 2)
            if finding.where:
                yield f"{margin}{_cut(finding.where)}"
            if finding.remedy:
                yield f"{margin}try: {finding.remedy}"
    yield summary(reports)


def summary(reports: Sequence[Report]) -> str:
    """Return the numbers of findings by severity."""
    found = [finding.severity for report in reports for finding in report.findings]
    counts = [(found.count(severity), one, more) for severity, one, more in _NAMES]
    told = [f"{count} {one if count == 1 else more}" for count, one, more in counts if count]
    return f"{len(reports)} topics: {', '.join(told) or 'all is well'}"


def as_object(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the findings for programs."""
    return {
        "topics": [report.topic for report in reports],
        "findings": [
            {"topic": report.topic, **_fields(finding)}
            for report in reports
            for finding in report.findings
        ],
    }


def _fields(finding: Finding) -> dict[str, str]:
    return {
        "severity": finding.severity.value,
        "what": finding.what,
        "where": finding.where,
        "remedy": finding.remedy,
    }


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
