"""Errors of a job in the words of the version that its writer uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from di_api.field_error import FieldError
from di_api.spec import CleanPodPolicy

_COORDINATED: Final = "spec.coordinated."
_POLICY: Final = "spec.cleanPodPolicy"
_POLICIES: Final = (CleanPodPolicy.NONE, CleanPodPolicy.RUNNING, CleanPodPolicy.ALL)
_LONGEST_SHOWN: Final = 80


def in_older_words(error: FieldError) -> tuple[str, str]:
    """Path of the field and text, for writers of the versions before the newest one.

    What is below `spec.coordinated` stands in the spec itself there. Programs look for the
    sentence about the clean-up policy, so it has no path before it.
    """
    if error.path == _POLICY and error.value not in _POLICIES:
        value = error.value if isinstance(error.value, str) else "of another type than string"
        shown = value[:_LONGEST_SHOWN].encode("utf-8", "replace").decode()
        return _POLICY, f"Invalid CleanPodPolicy {shown}, expected in [{', '.join(_POLICIES)}]"
    if not error.path.startswith(_COORDINATED):
        return error.path, str(error)
    here = replace(error, path=f"spec.{error.path.removeprefix(_COORDINATED)}")
    return here.path, str(here)


def in_words(error: FieldError) -> tuple[str, str]:
    """Path of the field and text, for writers of the newest version."""
    return error.path, str(error)
