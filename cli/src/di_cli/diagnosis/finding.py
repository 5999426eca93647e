"""One thing that is wrong, or could not be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from di_cli.diagnosis.facts import Answer


class Severity(StrEnum):
    """How bad it is."""

    FAULT = "fault"
    """Something does not work."""
    WARNING = "warning"
    """It works, and somebody should look at it."""
    UNREAD = "unread"
    """The user may not look at it, or nothing answered: no fault by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found.

    Attributes:
        severity: how bad it is.
        what: it is, in one sentence.
        where: the object, or somebody's own words.
        remedy: what to do.
    """

    severity: Severity
    what: str
    where: str = ""
    remedy: str = ""


def fault(what: str, *, where: str = "", remedy: str = "") -> Finding:
    """Something does not work."""
    return Finding(severity=Severity.FAULT, what=what, where=where, remedy=remedy)


def warning(what: str, *, where: str = "", remedy: str = "") -> Finding:
    """Somebody should look at it."""
    return Finding(severity=Severity.WARNING, what=what, where=where, remedy=remedy)


def unread(answer: Answer, what: str) -> Finding:
    """It was asked for, and nothing came that says how it is."""
    if answer.is_refused:
        return Finding(severity=Severity.UNREAD, what=f"you may not read {what}")
    return Finding(severity=Severity.UNREAD, what=f"{what}: no answer", where=answer.words)
