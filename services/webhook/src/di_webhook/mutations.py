"""The changes that admission makes to a job, one function each, in the order of MUTATIONS.

Each gets the job with the changes of those before it, and returns JSON Patch operations that add or
remove (RFC 6902). A further one is a function here and its place in the tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from di_api.annotations import annotation_patch
from di_api.base_template import base_patch
from di_api.changed_by import admitted_note
from di_api.conversion.versions import with_unseen
from di_api.defaults import defaults_patch, success_policy_patch
from di_api.difference import first_difference
from di_api.failure_defaults import failure_policy_patch, limits_patch
from di_api.field_error import mapping
from di_api.queued import SUSPENSION_NOTE, waits_in_queue
from di_webhook.kept import kept_fields
from di_webhook.ownership import without_tasks

Job: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job that is about to be written."""

    job: Job
    """The new job, with the changes of the mutations so far."""
    before: Job | None
    """The existing job; None: the job is new."""
    by_older_version: bool = False
    """Whether the client used one of the older versions, which lack fields of the job."""
    user: str = ""
    """User of the request; empty: unknown."""
    speakers: Collection[str] = ()
    """Users who change jobs on behalf of others; without any, no author is recorded."""

    @property
    def is_replaced(self) -> bool:
        """Return whether the client wrote a file over the job, instead of changing what it had
        read.
        """
        return self.before is not None and not mapping(self.job.get("metadata")).get("uid")


Mutation = Callable[[Change], list[Operation]]


def mutated(change: Change) -> list[Operation]:
    """Return the operations of all mutations."""
    operations: list[Operation] = []
    for mutation in MUTATIONS:
        added = mutation(change)
        if added:
            operations += added
            change = replace(change, job=_with(change.job, added))
    return operations


def _unseen_fields(change: Change) -> list[Operation]:
    """Keep the fields that a client of an older version cannot see."""
    if not change.by_older_version or not change.before:
        return []
    whole = with_unseen(change.job, change.before)
    return [
        _add(f"/{field}", whole[field])
        for field in ("spec", "status")
        if field in whole and first_difference(change.job.get(field), whole[field]) is not None
    ]


def _base(change: Change) -> list[Operation]:
    """Merge the base of all templates into the tasks."""
    return base_patch(change.job)


def _kept_fields(change: Change) -> list[Operation]:
    """Keep values that other clients set, of fields that a file leaves out."""
    if change.before is None:
        return []
    kept = kept_fields(change.job, change.before, is_replaced=change.is_replaced)
    return [_add(f"/spec/tasks/{index}/{field}", value) for index, field, value in kept]


def _shared_tasks(change: Change) -> list[Operation]:
    """Remove the tasks from the field managers that own them, because they are merged here."""
    managed = without_tasks(change.job)
    return [] if managed is None else [_add("/metadata/managedFields", managed)]


def _defaults(change: Change) -> list[Operation]:
    return defaults_patch(change.job)


def _policies(change: Change) -> list[Operation]:
    """Add the default policies to a new job, and to a replaced one its previous policies.

    A file that replaces a job lacks policies that it never had. A client that changed the existing
    job, as every patch does, has removed what is missing.
    """
    if change.before is not None and not change.is_replaced:
        return []
    return [
        *success_policy_patch(change.job, change.before),
        *failure_policy_patch(change.job, change.before),
    ]


def _limits(change: Change) -> list[Operation]:
    return limits_patch(change.job) if change.before is None else []


def _suspension(change: Change) -> list[Operation]:
    """Suspend a new job of a queue of Kueue."""
    if change.before is not None or not waits_in_queue(change.job):
        return []
    return [_add("/spec/suspend", True), *annotation_patch(change.job, SUSPENSION_NOTE)]


def _changed_by(change: Change) -> list[Operation]:
    """Record the author of the change of the spec; last, so that the additions here do not count as
    one.
    """
    if not change.speakers:
        return []
    note = admitted_note(change.job, change.before, change.user, change.speakers)
    return annotation_patch(change.job, note)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    _unseen_fields,
    _base,
    _kept_fields,
    _shared_tasks,
    _defaults,
    _policies,
    _limits,
    _suspension,
    _changed_by,
)


def _add(path: str, value: object) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _with(job: Job, operations: Iterable[Operation]) -> Job:
    """Return a job with the changes of operations; the rest is shared with `job`."""
    result = dict(job)
    # By id; they are kept here, so that no other object gets the id of one.
    copied: dict[int, Any] = {}
    for operation in operations:
        *above, last = operation["path"].removeprefix("/").split("/")
        owner: Any = result
        for step in above:
            key = _key(owner, step)
            inner = owner[key]
            if id(inner) not in copied:
                inner = owner[key] = inner.copy()
                copied[id(inner)] = inner
            owner = inner
        if operation["op"] == "remove":
            del owner[_key(owner, last)]
        else:
            owner[_key(owner, last)] = operation["value"]
    return result


def _key(owner: object, step: str) -> str | int:
    if isinstance(owner, list):
        return int(step)
    return step.replace("~1", "/").replace("~0", "~")
