"""Rules of a DIJob spec that relate fields to each other.

They read the raw spec (defaults applied), not a loaded one, so that a mistyped field elsewhere
does not hide them: all errors come at once. Wherever a shape is wrong a rule looks away; the
schema reports that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.coordinated import Role
from di_api.field_error import ABSENT, FieldError, child, items, mapping
from di_api.model import TaskType
from di_api.quantity import fault_of_amount, read_quantity
from di_api.size import total_errors


def broken_rules(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Errors of a raw spec, defaults applied, in the order of its fields; linear in its size."""
    volume_names = _names_of(spec.get("volumes"))
    yield from _repeated(volume_names, "spec.volumes", "another volume of the job")
    yield from _kind_of_job(spec)
    tasks = [(f"spec.tasks[{index}]", mapping(task)) for index, task in enumerate(_tasks(spec))]
    yield from _repeated_types(tasks)
    yield from _repeated_names(tasks)
    yield from total_errors(spec)
    known = {name for _, task in tasks if isinstance(name := task.get("name"), str)}
    for path, task in tasks:
        yield from _bounds(path, task)
        yield from _dependencies(path, task, known)
        yield from _template(f"{path}.template", task.get("template"), {*volume_names.values()})
    yield from _cycle(tasks)
    coordinated = mapping(spec.get("coordinated"))
    yield from _replicas(coordinated.get("replicas"))
    for role in ("coordinator", "collector", "learner"):
        path = f"spec.coordinated.{role}.template"
        template = mapping(coordinated.get(role)).get("template")
        yield from _template(path, template, {*volume_names.values()})


def _kind_of_job(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """A job has tasks or a coordinator; what only tasks can have is refused beside the latter."""
    tasks, coordinated = spec.get("tasks"), spec.get("coordinated")
    if tasks is None and coordinated is None:
        yield FieldError("spec.tasks", ABSENT, "is required, unless the job has a coordinator")
    if coordinated is None:
        return
    if tasks is not None:
        yield FieldError("spec.tasks", tasks, "a job has tasks or a coordinator, not both")
    if spec.get("preemptible") is True:
        yield FieldError("spec.preemptible", True, "the allocator shares nodes among tasks only")
    if mapping(spec.get("scheduling")).get("gang") is True:
        yield FieldError("spec.scheduling.gang", True, "the pods of a coordinator come one by one")


def _replicas(replicas: object) -> Iterator[FieldError]:
    """What the server writes and a hand may spoil."""
    path = "spec.coordinated.replicas"
    yield from _repeated(_names_of(replicas), path, "another replica")
    entries = [(f"{path}[{index}]", mapping(raw)) for index, raw in enumerate(items(replicas))]
    aggregators = {raw.get("name") for _, raw in entries if raw.get("role") == Role.AGGREGATOR}
    for where, raw in entries:
        aggregator, is_ddp = raw.get("aggregator"), raw.get("role") == Role.DDP_LEARNER
        if is_ddp and aggregator not in aggregators:
            yield FieldError(
                f"{where}.aggregator",
                ABSENT if aggregator is None else aggregator,
                "must be the name of an aggregator among the replicas",
            )
        elif not is_ddp and aggregator is not None:
            yield FieldError(f"{where}.aggregator", aggregator, "only a ddp-learner has one")


def _tasks(spec: Mapping[str, Any]) -> list[Any]:
    return items(spec.get("tasks"))


def _repeated_types(tasks: list[tuple[str, Mapping[str, Any]]]) -> Iterator[FieldError]:
    first: dict[str, str] = {}
    for path, task in tasks:
        kind = task.get("type")
        if not isinstance(kind, str) or kind == TaskType.NONE or kind not in set(TaskType):
            continue
        if kind in first:
            yield FieldError(
                f"{path}.type",
                kind,
                f"{first[kind]} is the {kind} already; a job has at most one, "
                "further tasks are of type none",
            )
        first.setdefault(kind, path)


def _repeated_names(tasks: list[tuple[str, Mapping[str, Any]]]) -> Iterator[FieldError]:
    first: dict[str, str] = {}
    for path, task in tasks:
        name = task.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            yield FieldError(f"{path}.name", name, f"is the name of {first[name]} already")
        first.setdefault(name, path)


def _bounds(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """minReplicas <= replicas <= maxReplicas, each bound only where it is given."""
    replicas = _whole(task.get("replicas"))
    lowest, highest = _whole(task.get("minReplicas")), _whole(task.get("maxReplicas"))
    if lowest is not None and highest is not None and lowest > highest:
        yield FieldError(
            f"{path}.minReplicas", lowest, f"must be at most maxReplicas, {_number(highest)}"
        )
    elif replicas is not None and lowest is not None and replicas < lowest:
        yield FieldError(
            f"{path}.replicas", replicas, f"must be at least minReplicas, {_number(lowest)}"
        )
    elif replicas is not None and highest is not None and replicas > highest:
        yield FieldError(
            f"{path}.replicas", replicas, f"must be at most maxReplicas, {_number(highest)}"
        )


def _dependencies(path: str, task: Mapping[str, Any], known: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in enumerate(items(task.get("dependsOn"))):
        where = f"{path}.dependsOn[{index}]"
        if not isinstance(name, str):
            continue
        if name == task.get("name"):
            yield FieldError(where, name, "a task cannot wait for itself")
        elif name not in known:
            yield FieldError(where, name, "no task of this job has that name")
        elif name in seen:
            yield FieldError(where, name, "is listed already")
        seen.add(name)


def _cycle(tasks: list[tuple[str, Mapping[str, Any]]]) -> Iterator[FieldError]:
    """Tasks that wait for each other in a circle would never start.

    Tasks free of dependencies are taken away until none is left; what stays is on a circle or
    waits for one. A walk from any of them along its first remaining dependency ends on a circle.
    """
    waits: dict[str, dict[str, None]] = {}
    where: dict[str, str] = {}
    for path, task in tasks:
        name = task.get("name")
        if isinstance(name, str) and name not in waits:
            where[name] = path
            # A dict as an ordered set: the message must not differ from run to run.
            waits[name] = {
                d: None for d in items(task.get("dependsOn")) if isinstance(d, str) and d != name
            }
    waiters: dict[str, list[str]] = {name: [] for name in waits}
    missing = dict.fromkeys(waits, 0)
    for name, wanted in waits.items():
        for dependency in wanted:
            if dependency in waits:
                waiters[dependency].append(name)
                missing[name] += 1
    free = [name for name, count in missing.items() if count == 0]
    while free:
        done = free.pop()
        del missing[done]
        for name in waiters[done]:
            missing[name] -= 1
            if missing[name] == 0:
                free.append(name)
    if not missing:
        return
    walk: dict[str, int] = {}
    name = next(iter(missing))
    while name not in walk:
        walk[name] = len(walk)
        name = next(dependency for dependency in waits[name] if dependency in missing)
    circle = [*list(walk)[walk[name] :], name]
    yield FieldError(
        f"{where[name]}.dependsOn",
        mapping(dict(tasks)[where[name]]).get("dependsOn"),
        f"tasks wait for each other in a circle: {' -> '.join(child('', n) for n in circle)}",
    )


def _template(path: str, template: object, job_volumes: set[str]) -> Iterator[FieldError]:
    """What the API server would only say about the pods, once the job had been taken."""
    if not isinstance(template, Mapping):
        return
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        yield FieldError(
            f"{path}.spec", ABSENT if spec is None else spec, "must be the pod spec, an object"
        )
        return
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        yield FieldError(
            f"{path}.spec.containers",
            ABSENT if containers is None else containers,
            "must hold at least one container",
        )
    for index, container in enumerate(items(containers)):
        where = f"{path}.spec.containers[{index}]"
        if not isinstance(container, Mapping):
            yield FieldError(where, container, "must be an object")
        elif not isinstance(container.get("name"), str) or not container["name"]:
            name = container.get("name")
            yield FieldError(f"{where}.name", ABSENT if name is None else name, "is required")
    yield from _repeated(_names_of(containers), f"{path}.spec.containers", "another container")
    yield from _above_limits(f"{path}.spec", spec)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(items(spec.get(field))):
            yield from _above_limits(f"{path}.spec.{field}[{index}]", mapping(container))
    own_volumes = _names_of(spec.get("volumes"))
    for index, volume in own_volumes.items():
        if volume in job_volumes:
            yield FieldError(
                f"{path}.spec.volumes[{index}].name",
                volume,
                "is the name of a volume in spec.volumes already",
            )


def _above_limits(path: str, owner: Mapping[str, Any]) -> Iterator[FieldError]:
    """Requests that are above the limit of the same resource, of a container or of the pod."""
    resources = mapping(owner.get("resources"))
    limits = mapping(resources.get("limits"))
    for name, asked in mapping(resources.get("requests")).items():
        limit = limits.get(name)
        if asked is None or limit is None or fault_of_amount(asked) or fault_of_amount(limit):
            continue
        if read_quantity(asked) > read_quantity(limit):
            where = child(f"{path}.resources.requests", name)
            yield FieldError(where, asked, f"must be at most the limit, {limit}")


def _names_of(values: object) -> dict[int, str]:
    """Index and name of the objects in a list of named objects."""
    return {
        index: name
        for index, value in enumerate(items(values))
        if isinstance(name := mapping(value).get("name"), str)
    }


def _repeated(names: Mapping[int, str], path: str, what: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in names.items():
        if name in seen:
            yield FieldError(f"{path}[{index}].name", name, f"is the name of {what} already")
        seen.add(name)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: int) -> str:
    # Python refuses to print integers of thousands of digits.
    return str(value) if abs(value) < 2**63 else "a huge number"
