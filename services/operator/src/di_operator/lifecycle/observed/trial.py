"""The API server's answer to dry runs of a job's pods."""

from __future__ import annotations

from dataclasses import dataclass

from di_operator.lifecycle.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The answer to a dry run of one pod of each template, for one generation of the spec."""

    reason: Reason | None = None
    """Reason of a job whose pods are rejected; None if they would be created or were not judged."""
    message: str = ""
    """The API server's message; empty without a reason."""
