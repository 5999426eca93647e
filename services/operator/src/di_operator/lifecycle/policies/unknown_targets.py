"""A job that wants somebody told whom the operator does not know is told so itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.vocabulary.reasons import Problem
from di_operator.notification_targets import named_targets

REASON: Final = "NoSuchTarget"
_MOST: Final = 8
"""Names that are told of; the annotation may have thousands."""
_LONGEST: Final = 63


def unknown_targets(snapshot: Snapshot) -> Iterator[tuple[Problem, str, str]]:
    """The problem of a job whose annotation names targets that there are not."""
    named, known = named_targets(snapshot.job), snapshot.notification_targets
    if known is None or not named:
        return
    missing = sorted(named - known)
    if missing:
        shown = ", ".join(repr(name[:_LONGEST]) for name in missing[:_MOST])
        more = f" and {len(missing) - _MOST} others" if len(missing) > _MOST else ""
        there = ", ".join(sorted(known)) or "none"
        message = (
            f"the annotation diengine/notify names {shown}{more}, and nobody of that name is told; "
            f"targets of this installation: {there}"
        )
        yield Problem.NOTIFY_TARGET_UNKNOWN, REASON, message
