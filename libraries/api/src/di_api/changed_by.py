"""Who changed a job's spec last: an annotation that the webhook writes, and the history reads.

`GENERATION NAME`: the `metadata.generation` that the spec has since, and the user's name as the
API server knows it. Who asks di-server is no user of the API server there, so di-server writes it,
and the webhook takes its word. Whatever others write is replaced. A name with another generation
than the job's says nothing: the webhook was away when the spec changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from di_api.difference import first_difference
from di_api.field_error import FieldError, child, mapping
from di_api.names import ANNOTATION_CHANGED_BY

_LONGEST: Final = 253


def changed_by(job: Mapping[str, Any]) -> str:
    """Who changed the spec of a job of any shape last; empty: nobody knows."""
    return _named(job, _generation(job))


def change_note(generation: object, who: str) -> dict[str, str]:
    """The annotation of a change of a job that has had that generation; none without a name."""
    number = generation if isinstance(generation, int) else 0
    return {ANNOTATION_CHANGED_BY: f"{number + 1} {who[:_LONGEST]}"} if who else {}


def admitted_note(
    job: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    user: str,
    speakers: Collection[str] = (),
) -> dict[str, str]:
    """The annotation that a job which is about to be written has to have.

    Args:
        job: as it is to be, with its defaults.
        before: as it is; None: it is new.
        user: who writes it; empty: that is not known.
        speakers: users who write for others, and say for whom.
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
    """The error of an annotation that names another user than the one who writes.

    The mutating webhook replaces such a one; where the API server went on without it, this is what
    keeps a user from acting in the name of another. Parameters as of `admitted_note`.
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
