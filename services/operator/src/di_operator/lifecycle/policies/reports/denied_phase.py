"""Reports a finished phase that was written by hand: no condition confirms it, so it is ignored."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason


def announce_denied(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Put an event about the denied phase before all others."""
    phase = snapshot.status.denied
    if phase is None:
        return verdict
    message = (
        f"status.phase was {phase.value} and its condition is not True: written by hand; "
        "the status is that of the pods"
    )
    event = JobEvent(reason=Reason.PHASE_NOT_CONFIRMED, message=message)
    return replace(verdict, events=(event, *verdict.events))


DENIED_PHASE: Final = Policy(amend=announce_denied)
