"""Rules about the frameworks of process groups, from what each of them declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.frameworks import FRAMEWORKS, Declaration
from di_api.frameworks.declaration import Roles
from di_api.frameworks.none import NONE
from di_api.pods.main_container import main_container
from di_api.spec.process_group import Framework
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks


def wrong_framework(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in a raw task's group that are due to its framework, with defaults."""
    group, where = mapping(task.get("processGroup")), f"{path}.processGroup"
    name = _framework(task)
    declared = FRAMEWORKS[name] if name is not None else NONE
    processes = _whole(group.get("processesPerReplica"))
    if declared.single_process and processes is not None and processes > 1:
        message = f"must be 1, {declared.single_process}"
        yield FieldError(f"{where}.processesPerReplica", processes, message)
    if declared.fixed_size and group.get("elastic") is True:
        yield FieldError(f"{where}.elastic", True, f"must be false, {declared.fixed_size}")
    field, size = _size(task)
    if declared.most_pods is not None and size > declared.most_pods:
        yield FieldError(f"{path}.{field}", size, _too_many(name, declared.most_pods))
    if declared.roles is not None:
        yield from _wrong_role(path, task, name, declared.roles)


def missing_command(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a main container without the command that the framework needs."""
    name = _framework(task)
    why = FRAMEWORKS[name].starts_command if name is not None else None
    pod = mapping(mapping(task.get("template")).get("spec"))
    containers = [mapping(each) for each in items(pod.get("containers"))]
    main = main_container(containers)
    if why and main is not None and not items(main.get("command")):
        where = f"{path}.template.spec.containers[{containers.index(main)}].command"
        yield FieldError(where, ABSENT, f"is required, {why}")


def _wrong_role(
    path: str, task: Mapping[str, Any], framework: Framework | None, roles: Roles
) -> Iterator[FieldError]:
    role = task.get("name")
    if isinstance(role, str) and role not in roles.names:
        yield FieldError(f"{path}.name", role, _no_role(framework, roles))
    field, size = _size(task)
    if role in roles.single and size > 1:
        yield FieldError(f"{path}.{field}", size, _one(framework, roles))
    if (pods := pods_per_replica(task)) > 1:
        yield FieldError(f"{path}.podsPerReplica", pods, _no_pod_groups(framework))
    # `vacant_members` refuses gaps of other groups.
    if mapping(task.get("processGroup")).get("elastic") is True and (
        vacant := items(task.get("vacant"))
    ):
        yield FieldError(f"{path}.vacant", vacant, _no_gap(framework))


def wrong_clusters(tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for clusters that lack a role."""
    for name, declared in FRAMEWORKS.items():
        if (roles := declared.roles) is None:
            continue
        members = [(path, task) for path, task in tasks if _framework(task) is name]
        present = {role for _, task in members if isinstance(role := task.get("name"), str)}
        for path, task in members:
            role = task.get("name")
            needed = roles.needs.get(role) if isinstance(role, str) else None
            if needed is not None and needed not in present:
                yield FieldError(f"{path}.name", role, _lacks(name, needed))
            is_elastic = mapping(task.get("processGroup")).get("elastic") is True
            if is_elastic and roles.elastic_with not in present:
                where = f"{path}.processGroup.elastic"
                yield FieldError(where, True, _rigid(name, roles.elastic_with))


def _framework(task: Mapping[str, Any]) -> Framework | None:
    found = mapping(task.get("processGroup")).get("framework")
    return next((name for name in Framework if name == found), None)


def _size(task: Mapping[str, Any]) -> tuple[str, int]:
    """Return the largest number of pods of a group, and the field that decides it."""
    if (pods := pods_per_replica(task)) > 1:
        return "podsPerReplica", pods
    sizes = [(name, _whole(task.get(name)) or 0) for name in ("replicas", "maxReplicas")]
    return max(sizes, key=lambda each: each[1])


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None


def _too_many(framework: str | None, most: int) -> str:
    return f"must be at most {most}, a variable of {framework} has the addresses of all pods"


def _no_role(framework: str | None, roles: Roles) -> str:
    names = ", ".join(roles.names)
    return f"must be one of {names}: the name of a task is its role in a cluster of {framework}"


def _one(framework: str | None, roles: Roles) -> str:
    return f"must be 1, a cluster of {framework} has one {' and one '.join(roles.single)}"


def _no_pod_groups(framework: str | None) -> str:
    return f"must be 1, the tasks of a job are one cluster of {framework}"


def _no_gap(framework: str | None) -> str:
    return f"must be empty, the indexes in a cluster of {framework} have no gap"


def _lacks(framework: str, role: str) -> str:
    return f"needs a task {role} of framework {framework}"


def _rigid(framework: str, role: str) -> str:
    return f"must be false without a task {role}, other clusters of {framework} take no member in"


_NAME: Final = "(has({0}.name) ? {0}.name : {0}.type)"
_REPLICAS: Final = "(has(self.replicas) ? self.replicas : 1)"
_HAS_PODS: Final = "has(self.podsPerReplica) && self.podsPerReplica > 1"
_SIZE: Final = (
    f"({_HAS_PODS} ? self.podsPerReplica : "
    f"has(self.maxReplicas) && self.maxReplicas > {_REPLICAS} ? self.maxReplicas : {_REPLICAS})"
)


def _rule(rule: str, message: str, *, field: str | None = None) -> dict[str, str]:
    place = {} if field is None else {"fieldPath": field}
    return {"rule": rule, "message": message, **place}


def _rules_of_task() -> Iterator[dict[str, str]]:
    for name, declared in FRAMEWORKS.items():
        yield from _rules_of(name, declared)


def _rules_of(name: str, declared: Declaration) -> Iterator[dict[str, str]]:
    """Yield the policy's rules about a task, the same as `wrong_framework` has."""
    other = f"!has(self.processGroup) || self.processGroup.framework != '{name}'"
    if declared.single_process:
        yield _rule(
            f"{other} || self.processGroup.processesPerReplica == 1",
            f"must be 1, {declared.single_process}",
            field=".processGroup.processesPerReplica",
        )
    if declared.fixed_size:
        yield _rule(
            f"{other} || !self.processGroup.elastic",
            f"must be false, {declared.fixed_size}",
            field=".processGroup.elastic",
        )
    if (most := declared.most_pods) is not None:
        yield _rule(f"{other} || {_SIZE} <= {most}", _too_many(name, most), field=".replicas")
    if (roles := declared.roles) is None:
        return
    role, one = _NAME.format("self"), list(roles.single)
    yield _rule(f"{other} || {role} in {[*roles.names]}", _no_role(name, roles), field=".name")
    yield _rule(
        f"{other} || !({role} in {one}) || {_SIZE} <= 1", _one(name, roles), field=".replicas"
    )
    yield _rule(f"{other} || !({_HAS_PODS})", _no_pod_groups(name), field=".podsPerReplica")
    yield _rule(
        f"{other} || !self.processGroup.elastic || !has(self.vacant) || self.vacant.size() == 0",
        _no_gap(name),
        field=".vacant",
    )


def _rules_of_tasks() -> Iterator[dict[str, str]]:
    """Yield the policy's rules about all tasks, the same as `wrong_clusters` has."""
    for name, declared in FRAMEWORKS.items():
        if (roles := declared.roles) is None:
            continue
        for role, needed in roles.needs.items():
            yield _rule(
                f"!{_exists(name, role)} || {_exists(name, needed)}",
                f"a task {role} {_lacks(name, needed)}",
            )
        is_elastic = (
            f"has(t.processGroup) && t.processGroup.framework == '{name}' && t.processGroup.elastic"
        )
        yield _rule(
            f"!self.exists(t, {is_elastic}) || {_exists(name, roles.elastic_with)}",
            f"elastic {_rigid(name, roles.elastic_with)}",
        )


def _exists(framework: str, role: str) -> str:
    return (
        f"self.exists(t, has(t.processGroup) && t.processGroup.framework == '{framework}' && "
        f"{_NAME.format('t')} == '{role}')"
    )


RULES_OF_TASK: Final = tuple(_rules_of_task())
RULES_OF_TASKS: Final = tuple(_rules_of_tasks())
