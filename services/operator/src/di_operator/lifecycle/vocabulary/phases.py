"""The phases of a job and the ways between them."""

from __future__ import annotations

from collections.abc import Mapping

from di_api.phase import Phase

TRANSITIONS: Mapping[Phase | None, frozenset[Phase]] = {
    # A new job, or one whose status was wiped: its pods may be in any state already.
    None: frozenset(
        {
            Phase.PENDING,
            Phase.STARTING,
            Phase.RUNNING,
            Phase.RESTARTING,
            Phase.RESCHEDULING,
            Phase.FAILED,
        }
    ),
    # Restarting and Rescheduling from Pending: a part of the pods runs (the rest waits for a
    # dependency or for quota), and one of them fails or is evicted.
    # Succeeded from any but Running is for a success policy alone: while the other pods wait, or
    # are replaced. Pods that were all ready for a moment only are reported as Running first, so
    # that a watcher sees every phase that was passed.
    Phase.PENDING: frozenset(
        {
            *(Phase.STARTING, Phase.RESTARTING, Phase.RESCHEDULING),
            *(Phase.SUCCEEDED, Phase.FAILED),
        }
    ),
    Phase.STARTING: frozenset(
        {
            *(Phase.PENDING, Phase.RUNNING, Phase.RESTARTING, Phase.RESCHEDULING),
            *(Phase.SUCCEEDED, Phase.FAILED),
        }
    ),
    Phase.RUNNING: frozenset(
        {Phase.PENDING, Phase.SUCCEEDED, Phase.RESTARTING, Phase.RESCHEDULING, Phase.FAILED}
    ),
    Phase.RESTARTING: frozenset(
        {
            *(Phase.PENDING, Phase.STARTING, Phase.RESCHEDULING),
            *(Phase.SUCCEEDED, Phase.FAILED),
        }
    ),
    Phase.RESCHEDULING: frozenset(
        {
            *(Phase.PENDING, Phase.STARTING, Phase.RESTARTING),
            *(Phase.SUCCEEDED, Phase.FAILED),
        }
    ),
    Phase.SUCCEEDED: frozenset(),
    Phase.FAILED: frozenset(),
}
"""From a phase (None: no status yet) to those that may follow it; staying is always allowed."""


def may_follow(old: Phase | None, new: Phase) -> bool:
    """Whether a job may go from ``old`` to another phase ``new``."""
    return new in TRANSITIONS[old]


class IllegalTransition(AssertionError):
    """A decision left the table: a defect of a policy, never the result of input."""


def check_transition(old: Phase | None, new: Phase) -> None:
    """Raise IllegalTransition if ``new`` may not follow ``old``."""
    if new is not old and not may_follow(old, new):
        raise IllegalTransition(f"{old} -> {new} is not a transition of a DIJob")
