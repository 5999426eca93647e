"""Tasks of a job, by the names in requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from di_api.coordinated import is_coordinated
from di_api.names import COORDINATED_VERSIONS
from di_server.problems import OutOfBounds


def check_has_tasks(job: Mapping[str, Any]) -> None:
    """Raise OutOfBounds for a job with a coordinator instead of tasks."""
    if is_coordinated(job):
        raise OutOfBounds(f"this job has a coordinator; see /{COORDINATED_VERSIONS[0]}/replicas")


def place_of(tasks: Sequence[Mapping[str, Any]], name: str) -> int:
    """Return the index of the task with that name, with defaults.

    Raises:
        OutOfBounds: there is none; the message has the existing names.
    """
    names = [str(task.get("name")) for task in tasks]
    if name not in names:
        raise OutOfBounds(f"no such task; the tasks of this job are {', '.join(names)}")
    return names.index(name)
