"""Reading a spec that was admitted by other rules than those of this version.

A job that runs is not judged again: its spec may come from a version with fewer rules (before an
upgrade) or with more fields (before a rollback). So rules are not applied here and unknown fields
are passed over. Types matter: what is read must mean what its author meant, because pods are made
and deleted by it. Nothing is guessed; whatever cannot be read makes the whole spec unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from di_api.coordinated import Coordinated, Replica, Role, Template
from di_api.defaults import with_defaults
from di_api.field_error import ABSENT, FieldError, InvalidSpec, child
from di_api.model import CleanPodPolicy, JobSpec, Priority, Scheduling, Task, TaskType
from di_api.size import MAX_PODS

MAX_READABLE_REPLICAS: Final = 4 * MAX_PODS
"""Most pods of a job that was admitted without the bound of today.

The node list of a larger one never fitted into its ConfigMap, so none has ever run; one that says
so now was changed behind the webhook's back, and making a plan for it would hold up all others.
"""

_MAX_INT64: Final = 2**63 - 1

_Choice = TypeVar("_Choice", bound=StrEnum)


def load_leniently(spec: object) -> JobSpec:
    """Read a raw spec, defaults applied, by its types alone.

    Raises:
        InvalidSpec: a value has a type or a word that this version cannot read, or the spec does
            not say which pods there are; the exception has the first of these.
    """
    if not isinstance(spec, Mapping):
        raise InvalidSpec([FieldError("spec", spec, "must be an object")])
    fields = _Fields("spec", with_defaults(spec))
    tasks, coordinated = fields.objects("tasks"), fields.object("coordinated")
    if bool(tasks) == (coordinated is not None):
        value = fields.raw.get("tasks", ABSENT)
        raise InvalidSpec([FieldError("spec.tasks", value, "a job has tasks or a coordinator")])
    scheduling = fields.object("scheduling")
    result = JobSpec(
        priority=fields.choice("priority", Priority),
        clean_pod_policy=fields.choice("cleanPodPolicy", CleanPodPolicy),
        preemptible=fields.flag("preemptible"),
        backoff_limit=fields.whole("backoffLimit", 0) or 0,
        group=fields.text("group"),
        volumes=tuple(_named(fields.objects("volumes"))),
        tasks=tuple(map(_task, tasks)),
        coordinated=_coordinated(coordinated) if coordinated is not None else None,
        scheduling=Scheduling(gang=scheduling is not None and scheduling.flag("gang")),
        suspend=fields.flag("suspend"),
        active_deadline_seconds=fields.whole("activeDeadlineSeconds", 1),
        ttl_seconds_after_finished=fields.whole("ttlSecondsAfterFinished", 0),
    )
    _check_pods(fields, result)
    return result


class _Fields:
    """An object of a spec, whose fields are read by type. A null is a field that is not there."""

    def __init__(self, path: str, raw: Mapping[str, Any]) -> None:
        self.path = path
        self.raw = raw

    def error(self, key: str, message: str) -> InvalidSpec:
        return InvalidSpec([FieldError(child(self.path, key), self.raw.get(key, ABSENT), message)])

    def text(self, key: str) -> str | None:
        value = self.raw.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, "must be a string")
        return value

    def name(self, key: str) -> str:
        value = self.text(key)
        if not value:
            raise self.error(key, "is required")
        return value

    def flag(self, key: str) -> bool:
        value = self.raw.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return bool(value)

    def whole(self, key: str, minimum: int) -> int | None:
        value = self.raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be a whole number, {minimum} or more")
        if not minimum <= value <= _MAX_INT64:
            raise self.error(key, f"must be {minimum} or more, and {_MAX_INT64} or less")
        return value

    def choice(self, key: str, choices: type[_Choice]) -> _Choice:
        value = self.raw.get(key)
        for choice in choices:
            if choice.value == value:
                return choice
        raise self.error(key, f"must be one of {', '.join(choice.value for choice in choices)}")

    def object(self, key: str) -> _Fields | None:
        value = self.raw.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(key, "must be an object")
        return None if value is None else _Fields(child(self.path, key), value)

    def objects(self, key: str) -> list[_Fields]:
        found = []
        for where, value in self._items(key):
            if not isinstance(value, Mapping):
                raise InvalidSpec([FieldError(where, value, "must be an object")])
            found.append(_Fields(where, value))
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        found = []
        for where, value in self._items(key):
            if not isinstance(value, str):
                raise InvalidSpec([FieldError(where, value, "must be a string")])
            found.append(value)
        return tuple(found)

    def _items(self, key: str) -> Iterator[tuple[str, Any]]:
        values = self.raw.get(key)
        if values is not None and not isinstance(values, list):
            raise self.error(key, "must be a list")
        path = child(self.path, key)
        return ((child(path, index), value) for index, value in enumerate(values or ()))


def _task(fields: _Fields) -> Task:
    return Task(
        name=fields.name("name"),
        type=fields.choice("type", TaskType),
        replicas=fields.whole("replicas", 0) or 0,
        min_replicas=fields.whole("minReplicas", 0),
        max_replicas=fields.whole("maxReplicas", 0),
        depends_on=fields.texts("dependsOn"),
        template=_template(fields),
    )


def _coordinated(fields: _Fields) -> Coordinated:
    roles = {key: fields.object(key) for key in ("coordinator", "collector", "learner")}
    templates = {key: _template(role) if role else None for key, role in roles.items()}
    coordinator = templates["coordinator"]
    if coordinator is None:
        raise fields.error("coordinator", "is required")
    return Coordinated(
        coordinator=coordinator,
        collector=templates["collector"],
        learner=templates["learner"],
        priority_class_name=fields.text("priorityClassName"),
        replicas=tuple(map(_replica, fields.objects("replicas"))),
    )


def _replica(fields: _Fields) -> Replica:
    role = fields.choice("role", Role)
    if role is Role.COORDINATOR:
        raise fields.error("role", "a job has one coordinator")
    resources = fields.object("resources")
    amounts: Mapping[str, Any] = resources.raw if resources is not None else {}
    for key, amount in amounts.items():
        if isinstance(amount, bool) or not isinstance(amount, str | int):
            raise InvalidSpec([FieldError(f"{fields.path}.resources.{key}", amount, "no quantity")])
    return Replica(
        name=fields.name("name"),
        role=role,
        resources=amounts,
        generation=fields.whole("generation", 0) or 0,
        aggregator=fields.text("aggregator"),
    )


def _template(owner: _Fields) -> Template:
    """The template of a task or role: as it is, if the parts that pods are made by are there."""
    template = owner.object("template")
    if template is None:
        raise owner.error("template", "is required")
    if metadata := template.object("metadata"):
        metadata.object("labels")
        metadata.object("annotations")
    spec = template.object("spec")
    if spec is None or not spec.objects("containers"):
        raise template.error("spec", "must hold at least one container")
    spec.text("restartPolicy")
    _named(spec.objects("volumes"))
    for container in (*spec.objects("containers"), *spec.objects("initContainers")):
        container.text("name")
        _named(container.objects("env"))
        for mount in container.objects("volumeMounts"):
            mount.text("mountPath")
        for port in container.objects("ports"):
            port.text("name")
        if resources := container.object("resources"):
            resources.object("requests")
            resources.object("limits")
    return template.raw


def _named(entries: Iterable[_Fields]) -> list[Mapping[str, Any]]:
    found = []
    for entry in entries:
        entry.text("name")
        found.append(entry.raw)
    return found


def _check_pods(fields: _Fields, spec: JobSpec) -> None:
    """Whether the pods can be told from each other, and are not too many to be thought about."""
    coordinated = spec.coordinated
    if coordinated is not None:
        names = [replica.name for replica in coordinated.replicas]
    else:
        names = [task.name for task in spec.tasks]
    if len(set(names)) < len(names):
        raise fields.error("tasks" if coordinated is None else "coordinated", "a name is repeated")
    if spec.replicas > MAX_READABLE_REPLICAS:
        message = f"{spec.replicas} pods, more than {MAX_READABLE_REPLICAS} have never run"
        raise fields.error("tasks" if coordinated is None else "coordinated", message)
