"""The annotation with the author of the last change of a job's spec; the webhook writes it, and the
history reads it.

`GENERATION NAME`: the `metadata.generation` since which the spec is unchanged, and the author's
user name at the API server. A user of di-server has no user name there, so di-server writes the
annotation and the webhook accepts it. A value from any other client is replaced. A value whose
generation differs from the job's is outdated: the webhook was unreachable when the spec changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from di_api.difference import first_difference
from di_api.field_error import FieldError, child, mapping
from di_api.names import ANNOTATION_CHANGED_BY

_LONGEST: Final = 253


def changed_by(job: Mapping[str, Any]) -> str:
    """Return the author of the last change of a job of any shape; empty if unknown."""
    return _named(job, _generation(job))


def change_note(generation: object, who: str) -> dict[str, str]:
    """Return the annotation for a change of a job with this generation; empty without a name."""
    number = generation if isinstance(generation, int) else 0
    return {ANNOTATION_CHANGED_BY: f"{number + 1} {who[:_LONGEST]}"} if who else {}


def admitted_note(
    job: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    user: str,
    speakers: Collection[str] = (),
) -> dict[str, str]:
    """Return the annotation that a job has to have when it is written.

    Args:
        job: the new job, with defaults.
        before: the existing job; None: the job is new.
        user: the user of the request; empty: unknown.
        speakers: users who write on behalf of others, and name them.
    """
    if before is not None and first_difference(before.get("spec"), job.get("spec")) is None:
        kept = _annotation(before)
        return {ANNOTATION_CHANGED_BY: kept} if kept else {}
    generation = _generation(before or {})
    told = _named(job, generation + 1) if user in speakers else ""
    return change_note(generation, told or user)


def foreign_note(
    job: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    user: str,
    speakers: Collection[str] = (),
) -> FieldError | None:
    """Return the error for an annotation that names another user than the one of the request.

    The mutating webhook replaces such an annotation. If the API server skipped that webhook, this
    check keeps a user from acting in the name of another. Parameters as in `admitted_note`.
    """
    found = _annotation(job)
    own = change_note(_generation(before or {}), user).get(ANNOTATION_CHANGED_BY)
    if found in ("", _annotation(before or {}), own) or user in speakers:
        return None
    path = child("metadata.annotations", ANNOTATION_CHANGED_BY)
    return FieldError(path, found, "is written by admission and names who asks; leave it out")


def _named(job: Mapping[str, Any], generation: int) -> str:
    number, _, who = _annotation(job).partition(" ")
    return who if number == str(generation) else ""


def _annotation(job: Mapping[str, Any]) -> str:
    annotations = mapping(mapping(job.get("metadata")).get("annotations"))
    found = annotations.get(ANNOTATION_CHANGED_BY)
    return found if isinstance(found, str) else ""


def _generation(job: Mapping[str, Any]) -> int:
    found = mapping(job.get("metadata")).get("generation")
    return found if isinstance(found, int) else 0
