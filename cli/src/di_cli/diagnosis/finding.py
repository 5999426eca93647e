"""A finding: a problem, or a check that was not possible."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from di_cli.diagnosis.facts import Answer


class Severity(StrEnum):
    """Severity of a finding."""

    FAULT = "fault"
    """Something does not work."""
    WARNING = "warning"
    """Something works, but needs attention."""
    UNREAD = "unread"
    """The user has no permission, or there was no response: not a fault by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding.

    Attributes:
        severity: of the problem.
        what: the problem, in one sentence.
        where: the object, or a quoted message.
        remedy: what to do.
    """

    severity: Severity
    what: str
    where: str = ""
    remedy: str = ""


def fault(what: str, *, where: str = "", remedy: str = "") -> Finding:
    """Return a finding that something does not work."""
    return Finding(severity=Severity.FAULT, what=what, where=where, remedy=remedy)


def warning(what: str, *, where: str = "", remedy: str = "") -> Finding:
    """Return a finding that something needs attention."""
    return Finding(severity=Severity.WARNING, what=what, where=where, remedy=remedy)


def unread(answer: Answer, what: str) -> Finding:
    """Return a finding that a check was not possible, from the response."""
    if answer.is_refused:
        return Finding(severity=Severity.UNREAD, what=f"you may not read {what}")
    return Finding(severity=Severity.UNREAD, what=f"{what}: no answer", where=answer.words)
