"""The validations of the ValidatingAdmissionPolicy on DIJobs, from the relations and the immutable
fields.

The API server evaluates a policy when a job is created or changed, never for its status. It would
evaluate rules of the CRD at each write of the status too, in time that grows with the spec.

Two properties of CRD rules are reproduced in the expressions: a rule applies only if its object
exists, and a job that broke a rule before can keep breaking it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api.crd.changes import finished_job, fixed_fields, fixed_in_items, never_started
from di_api.spec.bounds import MAX_SPEC_BYTES
from di_api.spec.declared import fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import Struct, Structs
from di_api.validation.relations import of_job
from di_api.validation.relations.of_task import OF_TASK
from di_api.validation.relations.row import Relation, Rule

Validation = dict[str, Any]

_ITEM: Final = "item"
_NAME: Final = "(has({0}.name) ? {0}.name : {0}.type)"


@dataclass(frozen=True, slots=True)
class Place:
    """The path of a rule's `self` in a job: `spec.failurePolicy.rules[].onExitCodes`.

    For a list, each item is `self` in turn.
    """

    path: str

    @property
    def steps(self) -> list[str]:
        """Return the names of the fields below the job; lists whose items are meant end in `[]`."""
        return self.path.split(".") if self.path else []

    @property
    def list_of_items(self) -> str:
        """Return the path of the list whose items are meant; empty if there is none."""
        return self.path.rpartition("[]")[0]


_ROOT: Final = Place("")
_SPEC: Final = Place("spec")
_TASKS: Final = Place("spec.tasks")
_TASK: Final = Place("spec.tasks[]")


# JSON without the backslashes of its strings, and without the spaces after commas: so the rule
# refuses nothing that `di_api.spec.weight` accepts.
_WEIGHT: Final[Rule] = {
    "rule": f"bytes('%s'.format([self]).replace(', ', ',')).size() <= {MAX_SPEC_BYTES}",
    "message": f"a job may have {MAX_SPEC_BYTES} bytes of spec as JSON; make it smaller, or put it "
    "into a ConfigMap or the image",
}


def validations() -> list[Validation]:
    """Return all validations; the API server reports the first that a job fails."""
    return [
        *(_of_change(place, rule) for place, rule in _changes()),
        *(_of_value(place, rule) for place, rule in _values()),
    ]


def _changes() -> Iterator[tuple[Place, Rule]]:
    yield _ROOT, finished_job()
    for rule in fixed_fields(JobSpec):
        yield _SPEC, rule
    for field in fields_of(JobSpec).values():
        rules: Sequence[Rule] = ()
        # An immutable object is compared as a whole.
        if isinstance(field.kind, Struct) and not field.is_fixed:
            rules = fixed_fields(field.kind.of)
        elif isinstance(field.kind, Structs) and not field.is_fixed:
            rules = () if field.declared.may_change else fixed_in_items(field)
        yield from ((Place(f"{_SPEC.path}.{field.name}"), rule) for rule in rules)


def _values() -> Iterator[tuple[Place, Rule]]:
    yield _SPEC, _WEIGHT
    rows: tuple[tuple[Place, Sequence[Relation[Any]]], ...] = (
        (_SPEC, of_job.OF_SPEC),
        (_TASKS, of_job.OF_TASKS),
        (_TASK, OF_TASK),
        (Place("spec.checkpoint"), of_job.OF_CHECKPOINT),
        (Place("spec.artifacts[]"), of_job.OF_ARTIFACTS),
        (Place("spec.code"), of_job.OF_CODE),
    )
    for place, relations in rows:
        yield from ((place, rule) for row in relations for rule in row.rules)
    failure = "spec.failurePolicy.rules[]"
    yield from ((Place(failure), rule) for rule in of_job.OF_FAILURE_RULE)
    yield from ((Place(f"{failure}.onExitCodes"), rule) for rule in of_job.OF_EXIT_CODES)


def _of_change(place: Place, rule: Rule) -> Validation:
    changed = _in(place.steps, "object", rule["rule"], "oldObject")
    if rule.get("before_start"):
        changed = f"{changed} || ({never_started('oldObject')})"
    found: Validation = {
        "expression": f"oldObject == null || {changed}",
        "message": _message(place, rule),
    }
    if place == _TASKS and "t." in rule["rule"]:
        # The rule compares all tasks at once, in linear time. Only a refusal has to find the task:
        # it applies the rule to a list of one task and the task of that name.
        alone = _bound(rule["rule"], "[item]", "[other]")
        same_name = f"{_NAME.format('other')} == {_NAME.format('item')}"
        same = f"oldObject.spec.tasks.exists(other, {same_name} && {alone})"
        found["messageExpression"] = _named(place.path, f"!{same}", rule["message"])
    return found


def _of_value(place: Place, rule: Rule) -> Validation:
    holds = _in(place.steps, "object", rule["rule"])
    unless = rule.get("unless")
    if unless:
        grown = _in(place.steps, "object", unless, "oldObject")
        before = f"oldObject != null && {grown}"
    else:
        # The job broke the rule before.
        before = f"oldObject != null && !{_in(place.steps, 'oldObject', rule['rule'])}"
    found: Validation = {"expression": f"{holds} || {before}", "message": _message(place, rule)}
    if listed := place.list_of_items:
        rest = place.path.removeprefix(f"{listed}[]").split(".")[1:]
        breaks = f"!{_in(rest, _ITEM, rule['rule'])}"
        below = "".join(f".{name}" for name in rest) + rule.get("fieldPath", "")
        found["messageExpression"] = _named(listed, breaks, rule["message"], below)
    return found


def _in(steps: Sequence[str], value: str, rule: str, old: str = "", depth: int = 0) -> str:
    """Return CEL that the rule holds for each `self` below `value`, with `oldSelf` at the same
    place of `old`, where both exist.
    """
    if not steps:
        return f"({_bound(rule, value, old)})"
    first, *rest = steps
    name = first.removesuffix("[]")
    exist = [f"!has({owner}.{name})" for owner in (value, old) if owner]
    if name == "spec":
        exist = []  # Required by the schema.
    inner, before = f"{value}.{name}", f"{old}.{name}" if old else ""
    if name == first:
        held = _in(rest, inner, rule, before, depth)
    else:
        item = f"{_ITEM}{depth}"
        held = f"{inner}.all({item}, {_in(rest, item, rule, depth=depth + 1)})"
    return f"({' || '.join([*exist, held])})" if exist else held


def _bound(rule: str, value: str, old: str) -> str:
    """Return a rule with its `self` and `oldSelf` bound."""
    values = {"self": value, "oldSelf": old}
    replaced: Callable[[re.Match[str]], str] = lambda found: values[found[0]]  # noqa: E731
    return re.sub(r"\b(?:self|oldSelf)\b", replaced, rule)


def _message(place: Place, rule: Rule) -> str:
    return f"{place.path}{rule.get('fieldPath', '')}: {rule['message']}".removeprefix(".")


def _named(listed: str, breaks: str, message: str, below: str = "") -> str:
    """Return CEL for a message with the index of the first list item for which `breaks` holds, and
    the task's name.
    """
    items = f"object.{listed}"
    index = f"string({items}.indexOf({_ITEM}))"
    name = f" + ' (task \"' + {_NAME.format(_ITEM)} + '\")'" if listed == _TASKS.path else ""
    text = f"'{listed}[' + {index} + ']{below}'{name} + {json.dumps(': ' + message)}"
    return f"{items}.filter({_ITEM}, {breaks}).map({_ITEM}, {text})[0]"
