"""Rules about failure policies: names that exist, no contradictions, no unreachable rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from di_api.field_error import FieldError, items, mapping
from di_api.quantity import fault_of_amount, read_quantity
from di_api.spec.coordinated import Role
from di_api.spec.failure import ExitCodeOperator, FailureAction
from di_api.spec.raw import read_numbers
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks, task_names, wrong_names

_PATH: Final = "spec.failurePolicy.rules"
_CONDITIONS: Final = ("onExitCodes", "onReasons", "onConditions")
_ENDLESS: Final = (FailureAction.IGNORE, FailureAction.FAIL_JOB)
_IN_PLACE: Final = FailureAction.RESTART_IN_PLACE
_ROLES: Final = frozenset(role.value for role in Role)


def wrong_failure_policy(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors in the rules of a failure policy, of a raw spec of any shape."""
    rules = items(mapping(spec.get("failurePolicy")).get("rules"))
    is_coordinated = spec.get("coordinated") is not None
    known = {*_ROLES} if is_coordinated else task_names(tasks)
    grows = any(isinstance(mapping(rule).get("growMemory"), Mapping) for rule in rules)
    memory = dict(_memory_limits(tasks)) if grows and not is_coordinated else {}
    for index, rule in enumerate(map(mapping, rules)):
        path = f"{_PATH}[{index}]"
        if is_coordinated or tasks:
            yield from wrong_names(f"{path}.tasks", rule.get("tasks"), known)
        is_last = index == len(rules) - 1
        # After a rule that restarts in place, others can match pods that ended as a whole.
        if not (is_last or any(map(rule.get, ("tasks", *_CONDITIONS))) or _is_in_place(rule)):
            message = "every failure fits this rule, so those after it are never reached"
            yield FieldError(path, rule, message)
        yield from _contradictions(path, rule)
        if not is_coordinated:
            yield from _growth_without_limit(path, rule, memory)


def roles_in_place(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for rules of a coordinated job about containers that its pods restart, or
    not, themselves.
    """
    for path, rule in _rules_in_place(spec):
        if spec.get("coordinated") is not None:
            message = "the templates of a coordinated job have a restartPolicy of their own"
            yield FieldError(f"{path}.action", rule["action"], message)


def pod_groups_in_place(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for rules about containers of replicas of several pods, which are restarted
    as a whole.
    """
    grouped = [
        name
        for _, task in tasks
        if pods_per_replica(task) > 1 and isinstance(name := task.get("name"), str)
    ]
    for path, rule in _rules_in_place(spec):
        named = items(rule.get("tasks"))
        found = next((name for name in grouped if not named or name in named), None)
        if found is not None:
            message = (
                f"replicas of task {found} are of several pods, and created again as a whole; "
                "name the tasks that the rule is about, without it"
            )
            yield FieldError(f"{path}.action", rule["action"], message)


def _rules_in_place(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    rules = items(mapping(spec.get("failurePolicy")).get("rules"))
    for index, rule in enumerate(map(mapping, rules)):
        if _is_in_place(rule):
            yield f"{_PATH}[{index}]", rule


def _contradictions(path: str, rule: Mapping[str, Any]) -> Iterator[FieldError]:
    codes = mapping(rule.get("onExitCodes"))
    if codes.get("operator") == ExitCodeOperator.IN and _has_zero(codes):
        message = "a container that failed has another exit code"
        yield FieldError(f"{path}.onExitCodes.values", codes["values"], message)
    action = rule.get("action")
    if action in _ENDLESS or _is_in_place(rule):
        what = "make another pod" if _is_in_place(rule) else "count a restart"
        for field in ("growMemory", "avoidNode"):
            if rule.get(field) not in (None, False):
                message = f"goes with actions that {what}, not with {action}"
                yield FieldError(f"{path}.{field}", rule[field], message)
    step = mapping(rule.get("growMemory")).get("maxStep")
    if step is not None and not fault_of_amount(step) and read_quantity(step) == 0:
        yield FieldError(f"{path}.growMemory.maxStep", step, "must be more than 0")


def _has_zero(codes: Mapping[str, Any]) -> bool:
    return any(0 in (read_numbers(value) or ()) for value in items(codes.get("values")))


def _is_in_place(rule: Mapping[str, Any]) -> bool:
    return bool(rule.get("action") == _IN_PLACE)


def _growth_without_limit(
    path: str, rule: Mapping[str, Any], memory: Mapping[str, Decimal | None]
) -> Iterator[FieldError]:
    growth = rule.get("growMemory")
    if not isinstance(growth, Mapping) or not memory:
        return
    named = [name for name in items(rule.get("tasks")) if isinstance(name, str) and name in memory]
    without = [name for name in named if memory[name] is None]
    if without or not any(memory.values()):
        who = f"no container of task {without[0]}" if without else "no container of any task"
        message = f"{who} has a memory limit, so there is nothing to grow"
        yield FieldError(f"{path}.growMemory", growth, message)
    limit = growth.get("limit")
    if limit is None or fault_of_amount(limit):
        return
    for name in named or memory:
        largest = memory[name]
        if largest is not None and read_quantity(limit) < largest:
            message = f"is less than the memory limit that a container of task {name} has"
            yield FieldError(f"{path}.growMemory.limit", limit, message)
            return


def _memory_limits(tasks: Tasks) -> Iterator[tuple[str, Decimal | None]]:
    """Yield the largest memory limit of a container, by task; None if it has no limit."""
    for _, task in tasks:
        if isinstance(name := task.get("name"), str):
            found = [read_quantity(each) for each in memory_limits(task.get("template"))]
            yield name, max(found, default=None)


def memory_limits(template: object) -> list[Any]:
    """Return the memory limits of the containers of a raw template, as far as they can be
    parsed.
    """
    spec = mapping(mapping(template).get("spec"))
    containers = (*items(spec.get("initContainers")), *items(spec.get("containers")))
    limits = [
        mapping(mapping(mapping(each).get("resources")).get("limits")).get("memory")
        for each in containers
    ]
    return [each for each in limits if each is not None and not fault_of_amount(each)]
