"""The phases of a job and the transitions between them."""

from __future__ import annotations

from collections.abc import Mapping

from di_api.phase import Phase

TRANSITIONS: Mapping[Phase | None, frozenset[Phase]] = {
    # A new job, or one whose status was wiped: its pods can be in any state already.
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
    # From Pending to Restarting or Rescheduling: some pods run while others wait for a dependency
    # or for quota, and one of those that run fails or is evicted. Succeeded follows a phase other
    # than Running only by a success policy: other pods may then be waiting, or may be being
    # replaced. A job whose pods were all ready for a moment is reported as Running first, so that
    # a watcher sees every phase that it passed.
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
"""The phases that may follow each phase (None: no status yet); a job may always stay in its phase.
"""


def may_follow(old: Phase | None, new: Phase) -> bool:
    """Return whether a job may go from phase ``old`` to another phase ``new``."""
    return new in TRANSITIONS[old]


class IllegalTransition(AssertionError):
    """A transition that is not in the table: a defect of a policy, never the result of input."""


def check_transition(old: Phase | None, new: Phase) -> None:
    """Raise IllegalTransition if ``new`` may not follow ``old``."""
    if new is not old and not may_follow(old, new):
        raise IllegalTransition(f"{old} -> {new} is not a transition of a DIJob")
