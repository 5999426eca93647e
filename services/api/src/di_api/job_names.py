"""Whether the names made from a job's name are valid and fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api import coordinated, names
from di_api.coordinated import Role
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.schema import MAX_INT32, is_dns_label

GENERATED_SUFFIX: Final = 5
"""Characters the API server adds to metadata.generateName."""

_CHARACTERS: Final = (
    "must be lower-case letters, digits and dashes, with a letter or digit at both ends: "
    "the names of pods and their DNS names are made from it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Largest:
    """The last pod of a task at the highest replica count its spec allows."""

    path: str
    task: str
    replicas: int

    @property
    def suffix(self) -> str:
        return names.pod_name("", self.task, self.replicas - 1)


def name_errors(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors in the name of a job, or of a task that leaves no room for one.

    `spec` is raw, defaults applied. A job with only metadata.generateName is judged by the name
    it will get: mutating admission comes before the name is made.
    """
    field, added = "name", 0
    if not metadata.get("name") and metadata.get("generateName"):
        field, added = "generateName", GENERATED_SUFFIX
    path, name = f"metadata.{field}", metadata.get(field)
    if not isinstance(name, str) or not name:
        yield FieldError(path, ABSENT if name is None else name, "must be a name, a string")
        return
    if isinstance(spec.get("coordinated"), Mapping):
        yield from _coordinated_name(path, name, added)
        return
    tasks = list(_largest_pods(spec))
    longest = names.longest_job_name((each.task, each.replicas) for each in tasks) - added
    if longest < 1:
        yield from _tasks_without_room(len(name) + added, tasks)
    elif len(name) > longest:
        suffix = max((each.suffix for each in tasks), key=len, default="")
        reason = (
            f"its pod <name>{suffix} may have {names.MAX_LABEL}"
            if len(suffix) > len(names.service_name(""))
            else f"its Service {names.service_name('<name>')} may have {names.MAX_LABEL}"
        )
        yield FieldError(
            path,
            name,
            f"{len(name)} characters are too many, {reason}; the longest name that fits has "
            f'{longest}, such as "{name[:longest].rstrip("-.")}"',
        )
    # What is generated ends in letters and digits, so its prefix may end in a dash.
    elif not is_dns_label(name + "x" * added):
        yield FieldError(path, name, _CHARACTERS)


def _coordinated_name(path: str, name: str, added: int) -> Iterator[FieldError]:
    longest = coordinated.LONGEST_JOB_NAME - added
    if len(name) > longest:
        pod = coordinated.replica_name("<name>", Role.DDP_LEARNER, "x" * coordinated.SUFFIX_LENGTH)
        yield FieldError(
            path,
            name,
            f"{len(name)} characters are too many, its pod {pod} may have {names.MAX_LABEL}; the "
            f'longest name that fits has {longest}, such as "{name[:longest].rstrip("-.")}"',
        )
    elif not is_dns_label(name + "x" * added):
        yield FieldError(path, name, _CHARACTERS)
    elif not name[0].isalpha():
        yield FieldError(
            path, name, "must begin with a letter: each pod has a Service of its own name"
        )


def _largest_pods(spec: Mapping[str, Any]) -> Iterator[_Largest]:
    for index, raw in enumerate(items(spec.get("tasks"))):
        task = mapping(raw)
        name = task.get("name")
        if not is_dns_label(name):
            continue  # reported by the schema
        counts = [task.get("replicas"), task.get("maxReplicas")]
        whole = [count for count in counts if isinstance(count, int) and 0 < count <= MAX_INT32]
        yield _Largest(
            path=f"spec.tasks[{index}].name", task=str(name), replicas=max(whole, default=1)
        )


def _tasks_without_room(length: int, tasks: list[_Largest]) -> Iterator[FieldError]:
    for each in tasks:
        if len(each.suffix) < names.MAX_LABEL:
            continue
        rest = len(each.suffix) - len(each.task)
        room = max(names.MAX_LABEL - rest - length, 1)
        yield FieldError(
            each.path,
            each.task,
            f"{len(each.task)} characters are too many, pods are named <job>{each.suffix} and may "
            f"have {names.MAX_LABEL}; the longest name that fits has {room}",
        )
