"""What the API server answered to dry runs of a job's pods."""

from __future__ import annotations

from dataclasses import dataclass

from di_operator.lifecycle.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The answer to a dry run of one pod of each template, for one generation of the spec."""

    reason: Reason | None = None
    """As of a job whose pods are refused; None: they would be created, or are not judged."""
    message: str = ""
    """The API server's text; empty without a reason."""
