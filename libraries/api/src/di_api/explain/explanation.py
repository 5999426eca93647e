"""The parts of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from di_api.explain.cause import Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A fact that supports an explanation."""

    label: str
    """One word, or two."""
    text: str
    """One line; for a log several lines."""
    at: datetime | None = None
    """Time of the fact, or since when it has been true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is in its state.

    Attributes:
        cause: for programs.
        summary: one sentence, for people.
        evidence: the supporting facts, the strongest first.
        remedy: what to do; empty if nothing has to be done.
    """

    cause: Cause
    summary: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
