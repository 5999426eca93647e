"""What a scheduler says of a PodGroup that it has not bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_operator.lifecycle.observed.blockers import MAX_TEXT, Blocker
from di_operator.lifecycle.vocabulary.reasons import Reason

_WAITS: Final = frozenset({("Unschedulable", "True"), ("PodGroupInitiallyScheduled", "False")})
"""Types of conditions, as Volcano and as Kubernetes have them, and what they are for a group that
waits. The scheduler of scheduler-plugins says it of each pod alone."""


def group_blocker(group: Mapping[str, Any] | None) -> Blocker | None:
    """Why the pods of a group wait; None: nothing is said, or they do not."""
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
