"""Field paths of errors in the version that the client uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.dns_names import DNS_LABEL
from di_api.field_error import FieldError, items, mapping
from di_api.spec import CleanPodPolicy

_COORDINATED: Final = "spec.coordinated."
_POLICY: Final = "spec.cleanPodPolicy"
_POLICIES: Final = (CleanPodPolicy.NONE, CleanPodPolicy.RUNNING, CleanPodPolicy.ALL)
_LONGEST_SHOWN: Final = 80
_TASK: Final = re.compile(r"spec\.tasks\[(?P<index>[0-9]{1,9})\]")
_NAME: Final = re.compile(DNS_LABEL)


def in_older_words(error: FieldError, _: Mapping[str, Any]) -> tuple[str, str]:
    """Return path and text of an error for clients of the older versions.

    Fields below `spec.coordinated` are in the spec itself there. Programs search for the sentence
    about the clean-up policy, so it has no path before it.
    """
    if error.path == _POLICY and error.value not in _POLICIES:
        value = error.value if isinstance(error.value, str) else "of another type than string"
        shown = value[:_LONGEST_SHOWN].encode("utf-8", "replace").decode()
        return _POLICY, f"Invalid CleanPodPolicy {shown}, expected in [{', '.join(_POLICIES)}]"
    if not error.path.startswith(_COORDINATED):
        return error.path, str(error)
    here = replace(error, path=f"spec.{error.path.removeprefix(_COORDINATED)}")
    return here.path, str(here)


def in_words(error: FieldError, job: Mapping[str, Any]) -> tuple[str, str]:
    """Return path and text of an error for clients of the newest version.

    The path has a task's index, and the text ends with the task's name, by which a reader finds it
    in a long manifest.
    """
    return error.path, f"{error}{_task(error.path, job)}"


def _task(path: str, job: Mapping[str, Any]) -> str:
    """Return the suffix with the name of the task in a path; empty without a task."""
    found = _TASK.match(path)
    tasks = items(mapping(job.get("spec")).get("tasks"))
    if found is None or int(found["index"]) >= len(tasks):
        return ""
    task = mapping(tasks[int(found["index"])])
    name = task.get("name", task.get("type"))
    return f' (task "{name}")' if isinstance(name, str) and _NAME.fullmatch(name) else ""
