"""The suspender of a job, by the API server's managed fields and the webhook's annotation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from di_api.changed_by import changed_by
from di_api.explain.facts import Object
from di_api.field_error import items, mapping
from di_api.timestamps import parse_time

_SPEC: Final = "f:spec"
_SUSPEND: Final = "f:suspend"


def suspender(job: Object, since: datetime | None) -> str:
    """Return who suspended a job, as the end of a sentence that begins with "is suspended".

    `managedFields` has the program that wrote `spec.suspend`. The user is known if the spec has
    not been written since: the annotation has the author of its last change.

    Args:
        since: time at which the operator has reported the suspension.
    """
    user = changed_by(job)
    writers = list(_writers(job))
    owners = [program for program, owns, _ in writers if owns and program]
    program = owners[0] if len(owners) == 1 else ""
    is_last = since is not None and all(at is not None and at <= since for _, _, at in writers)
    if program and user and is_last:
        return f" by {user} ({program})"
    by = f" with {program}" if program else ""
    return f"{by}; its spec was last changed by {user}" if user else by


def spec_writers(job: Object) -> list[Object]:
    """Return the managed fields that `suspender` reads, each without other fields."""
    return [
        {"manager": program, "time": entry.get("time"), "fieldsV1": {_SPEC: _owned(owns=owns)}}
        for program, owns, entry in _entries(job)
    ]


def _owned(*, owns: bool) -> Object:
    return {_SUSPEND: {}} if owns else {}


def _writers(job: Object) -> Iterator[tuple[str, bool, datetime | None]]:
    """Yield the programs that wrote the spec, whether they own `suspend`, and their last times."""
    for program, owns, entry in _entries(job):
        yield program, owns, parse_time(entry.get("time"))


def _entries(job: Object) -> Iterator[tuple[str, bool, Object]]:
    for entry in map(mapping, items(mapping(job.get("metadata")).get("managedFields"))):
        fields = mapping(entry.get("fieldsV1"))
        if not entry.get("subresource") and _SPEC in fields:
            owns = _SUSPEND in mapping(fields.get(_SPEC))
            yield str(entry.get("manager") or ""), owns, entry
