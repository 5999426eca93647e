"""`status.groups`: the members of tasks' process groups; only the operator writes it.

Pods get the same data, by file and from di-server. A task has a group if it declares one, or if its
processes can be restarted in place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from di_api.field_error import mapping
from di_api.spec.bounds import MAX_PODS
from di_api.spec.failure import FailurePolicy
from di_api.spec.process_group import Framework, ProcessGroup

FIELD: Final = "groups"
"""Field name in the status of a job."""


_FAILURES: Final = re.compile("[0-9]{1,9}")
_MOST: Final = 2**53
"""Largest valid generation: a larger one was written by hand, because JSON has none and the next
one may not fit.
"""


class GroupState(StrEnum):
    """State of a process group."""

    FORMING = "Forming"
    """A rendezvous round is running: every running pod joins, and the next world is not
    known yet.
    """
    FORMED = "Formed"
    """The world is known."""
    INSUFFICIENT = "InsufficientReplicas"
    """At the end of a round there were fewer members than the minimum; the next member to join
    starts another round.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The process group of one task, with times as strings."""

    generation: int = 0
    """Number of worlds so far."""
    state: GroupState = GroupState.FORMING
    members: Mapping[int, str]
    """Members of the world, or those that have joined the round so far: by local index the UIDs of
    the pods, after a restart in place `<UID>/<failures>`.
    """
    since: str | None = None
    """When the state was entered; for a round, when it began."""
    last_join: str | None = None
    """When the last member joined the round."""

    @classmethod
    def read(cls, raw: object) -> GroupStatus | None:
        """Parse the entry of a task; None if it is missing or invalid."""
        fields = mapping(raw)
        generation, state = fields.get("generation"), fields.get("state")
        known = next((each for each in GroupState if each.value == state), None)
        if known is None or isinstance(generation, bool) or not isinstance(generation, int):
            return None
        members = _members(fields.get("members"))
        if not 0 <= generation <= _MOST or members is None:
            return None
        return cls(
            generation=generation,
            state=known,
            members=members,
            since=_text(fields.get("since")),
            last_join=_text(fields.get("lastJoin")),
        )

    def as_status(self) -> dict[str, Any]:
        """Return the form that `read` parses."""
        status: dict[str, Any] = {
            "generation": self.generation,
            "state": self.state.value,
            "members": {str(index): uid for index, uid in sorted(self.members.items())},
        }
        if self.since is not None:
            status["since"] = self.since
        if self.last_join is not None:
            status["lastJoin"] = self.last_join
        return status

    @property
    def world(self) -> Sequence[int]:
        """Return the local indexes of the members by rank; empty while there is no world."""
        return sorted(self.members) if self.state is GroupState.FORMED else ()


def read_member(member: str) -> tuple[str, int]:
    """Return the UID of a member's pod, and how often a container of it had failed before."""
    uid, _, failures = member.partition("/")
    return uid, int(failures) if _FAILURES.fullmatch(failures) else 0


def has_group(
    task: str, *, has_process_group: bool, pods_per_replica: int, policy: FailurePolicy | None
) -> bool:
    """Return whether a task's pods get the list of their group's members."""
    # Each replica of several pods is a group of its own, and always complete.
    return pods_per_replica == 1 and (
        has_process_group or (policy is not None and policy.may_restart_in_place(task))
    )


def is_fixed_group(
    task: str,
    *,
    group: ProcessGroup | None,
    pods_per_replica: int,
    policy: FailurePolicy | None,
    is_resized: bool = False,
) -> bool:
    """Return whether a task's pods are one process group that takes no member back.

    Such a group is replaced as a whole when it loses a member or, with `is_resized`, when its task
    gets another number of replicas. Where a rule restarts processes in place, the members meet
    again in each generation; but a framework's variables still have the size of the pod's start.
    """
    if group is None or group.elastic or pods_per_replica > 1:
        return False
    if is_resized and group.framework is not Framework.NONE:
        return True
    return policy is None or not policy.may_restart_in_place(task)


def read_groups(status: object) -> dict[str, GroupStatus]:
    """Return the groups in the status of a job, by task; invalid ones are left out."""
    found = {
        task: GroupStatus.read(group) for task, group in mapping(mapping(status).get(FIELD)).items()
    }
    return {str(task): group for task, group in found.items() if group is not None}


def _members(raw: object) -> dict[int, str] | None:
    if not isinstance(raw, Mapping):
        return None
    found: dict[int, str] = {}
    for index, uid in raw.items():
        if not (isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 6):
            return None
        if int(index) >= MAX_PODS or not isinstance(uid, str):
            return None
        found[int(index)] = uid
    return found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
