"""The scheduler's reason why a PodGroup is not bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_operator.lifecycle.observed.blockers import MAX_TEXT, Blocker
from di_operator.lifecycle.vocabulary.reasons import Reason

_WAITS: Final = frozenset({("Unschedulable", "True"), ("PodGroupInitiallyScheduled", "False")})
"""Condition types of Volcano and of Kubernetes, with the value they have while a group waits. The
scheduler of scheduler-plugins reports it on each pod instead.
"""


def group_blocker(group: Mapping[str, Any] | None) -> Blocker | None:
    """Return why the pods of a group wait; None if they do not, or no reason is reported."""
    if group is None:
        return None
    status = mapping(group.get("status"))
    if status.get("phase") in ("Running", "Finished", "Completed"):
        return None
    for condition in items(status.get("conditions")):
        one = mapping(condition)
        if (one.get("type"), one.get("status")) in _WAITS:
            why = one.get("message") or one.get("reason") or "its scheduler does not say why"
            message = f"PodGroup {group['metadata']['name']}: {why}"
            return Blocker(reason=Reason.POD_GROUP_PENDING, message=message[:MAX_TEXT])
    return None
