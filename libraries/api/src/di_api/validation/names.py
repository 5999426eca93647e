"""Rules about the names derived from a job's name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api import coordinated, names
from di_api.dns_names import MAX_LABEL, is_dns_label
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.bounds import MAX_PODS
from di_api.spec.coordinated import Role
from di_api.validation.size import pods_per_replica, reach, standby_pods

GENERATED_SUFFIX: Final = 5
"""Number of characters that the API server appends to metadata.generateName."""
MAX_NODE_LISTS: Final = 1_048_576
"""Maximum bytes of all node lists together, as for the values of a ConfigMap."""
DOMAIN_RESERVE: Final = 40
"""Number of characters that are reserved for the cluster's service domain, which only the operator
knows.
"""
_LISTS: Final = 2
"""Number of lists that contain a pod's name: that of all ranks and that of its task."""

_CHARACTERS: Final = (
    "must be lower-case letters, digits and dashes, with a letter or digit at both ends: "
    "the names of pods and their DNS names are made from it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Largest:
    """The last pod of a task at its largest allowed number of replicas, standby pods included: any
    of these can be promoted to a replica.
    """

    path: str
    task: str
    pods: int
    size: int
    """Pods of each replica."""
    has_standbys: bool

    @property
    def suffix(self) -> str:
        if self.has_standbys:
            return names.standby_name("", self.task, self.pods - 1)
        return names.pod_name("", self.task, self.pods - 1, self.size)

    @property
    def lists(self) -> int:
        """Return the number of lists that contain the name of each of its pods."""
        # The data of its process group has them too.
        return _LISTS + self.has_standbys

    def entry(self, job: str, namespace: str) -> int:
        """Return the number of characters of its DNS name in a list, with the comma."""
        pod = f"{job}{self.suffix}"
        return len(names.pod_fqdn(pod, job, namespace, "x" * DOMAIN_RESERVE)) + 1


def name_errors(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in the name of a job, or of a task whose name is too long for any job name.

    `spec` is raw, with defaults. A job with only metadata.generateName is checked by the name that
    it will get, because mutating admission comes before the name is generated.
    """
    field, added = _origin(metadata)
    path, name = f"metadata.{field}", metadata.get(field)
    if not isinstance(name, str) or not name:
        yield FieldError(path, ABSENT if name is None else name, "must be a name, a string")
        return
    if isinstance(spec.get("coordinated"), Mapping):
        yield from _coordinated_name(path, name, added)
        return
    tasks = list(_largest_pods(spec))
    longest = longest_job_name(each.suffix for each in tasks) - added
    if longest < 1:
        yield from _tasks_without_room(len(name), added, tasks)
    elif len(name) > longest:
        suffix = max((each.suffix for each in tasks), key=len, default="")
        reason = (
            f"its pod <name>{suffix} may have {MAX_LABEL}"
            if len(suffix) > len(names.service_name(""))
            else f"its Service {names.service_name('<name>')} may have {MAX_LABEL}"
        )
        yield FieldError(
            path,
            name,
            f"{len(name)} characters are too many, {reason}; the longest name that fits has "
            f'{longest}, such as "{name[:longest].rstrip("-.")}"',
        )
    # A generated suffix consists of letters and digits, so its prefix can end in a dash.
    elif not is_dns_label(name + "x" * added):
        yield FieldError(path, name, _CHARACTERS)
    else:
        yield from _names_of_services(path, name, added, spec)


def _names_of_services(
    path: str, name: str, added: int, spec: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield the errors of tasks with a Service: a name that no Service can have, or that of the
    job's own Service.

    No such name is too long, because the longer name of a pod of the task fits.
    """
    for index, task in enumerate(map(mapping, items(spec.get("tasks")))):
        task_name = task.get("name")
        if not isinstance(task.get("service"), Mapping) or not isinstance(task_name, str):
            continue
        if not name[0].isalpha():
            message = f"must begin with a letter: task {task_name} has a Service, <job>-{task_name}"
            yield FieldError(path, name, message)
            return
        taken = names.task_service_name(name, task_name)
        if not added and taken == names.service_name(name):
            message = f"its Service {taken} would be the one that the job has for all its pods"
            yield FieldError(f"spec.tasks[{index}].name", task_name, message)


def node_list_errors(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error if the DNS names of all pods that a job can reach are too long for its node
    lists.

    The lists are in one ConfigMap, which every pod of a large job needs to start. `spec` is raw,
    with defaults.
    """
    field, added = _origin(metadata)
    name, namespace = metadata.get(field), metadata.get("namespace")
    if not isinstance(name, str):
        return  # reported by `name_errors`
    job = name + "x" * added
    where = namespace if isinstance(namespace, str) else "x" * MAX_LABEL
    tasks = list(_largest_pods(spec))
    pods = sum(each.pods for each in tasks)
    if pods > MAX_PODS:
        return  # reported by `total_errors`
    size = sum(each.lists * each.pods * each.entry(job, where) for each in tasks)
    if size > MAX_NODE_LISTS:
        yield FieldError(
            "spec.tasks",
            spec["tasks"],
            f"may reach {pods} pods, whose DNS names take {size} bytes of the {MAX_NODE_LISTS} "
            f"that node lists may have: with names as long as these there is room for "
            f"{pods * MAX_NODE_LISTS // size} pods; lower replicas or maxReplicas, or shorten the "
            "name of the job, of its tasks or of its namespace",
            passes=("bytes of node lists", size),
        )


def _origin(metadata: Mapping[str, Any]) -> tuple[str, int]:
    """Return the field that the job's name is derived from, and the number of appended
    characters.
    """
    if not metadata.get("name") and metadata.get("generateName"):
        return "generateName", GENERATED_SUFFIX
    return "name", 0


def _coordinated_name(path: str, name: str, added: int) -> Iterator[FieldError]:
    longest = coordinated.LONGEST_JOB_NAME - added
    if len(name) > longest:
        pod = coordinated.replica_name("<name>", Role.DDP_LEARNER, "x" * coordinated.SUFFIX_LENGTH)
        yield FieldError(
            path,
            name,
            f"{len(name)} characters are too many, its pod {pod} may have {MAX_LABEL}; the "
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
        path, size = f"spec.tasks[{index}].name", pods_per_replica(task)
        yield _Largest(
            path=path,
            task=str(name),
            pods=reach(task),
            size=size,
            has_standbys=standby_pods(task) > 0,
        )


def _tasks_without_room(length: int, added: int, tasks: list[_Largest]) -> Iterator[FieldError]:
    for each in tasks:
        if len(each.suffix) + added < MAX_LABEL:
            continue
        rest = len(each.suffix) - len(each.task)
        room = max(MAX_LABEL - rest - length - added, 1)
        yield FieldError(
            each.path,
            each.task,
            f"{len(each.task)} characters are too many, pods are named <job>{each.suffix} and may "
            f"have {MAX_LABEL}; the longest name that fits has {room}",
        )


def longest_job_name(suffixes: Iterable[str]) -> int:
    """Return the length of the longest job name whose Service and pod names fit MAX_LABEL.

    `suffixes` are the names of the last pods that the tasks can reach, without the job's name. Zero
    or less means that no job name fits: a task's own name is too long."""
    longest = MAX_LABEL - len(names.service_name(""))
    return min([longest, *(MAX_LABEL - len(suffix) for suffix in suffixes)])
