"""What an explanation consists of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from di_api.explain.cause import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A fact behind an explanation."""

    label: str
    """One word, or two."""
    text: str
    """One line, of a log several."""
    at: datetime | None = None
    """When it was so, or since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is as it is.

    Attributes:
        cause: for programs.
        summary: one sentence, for people.
        evidence: the facts behind it, the first of them first.
        remedy: what to do; empty if nothing is to be done.
    """

    cause: Cause
    summary: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
