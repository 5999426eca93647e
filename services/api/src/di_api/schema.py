"""The shape of a DIJob spec: which fields there are, their types and their limits.

The CRD says the same to the API server; this is the copy that answers without one, and the
only way from a raw spec to a `JobSpec`. Rules that relate fields to each other are in
`di_api.rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from marshmallow import RAISE, Schema, ValidationError, fields, post_load

from di_api.coordinated import MAX_REPLICAS, Coordinated, Replica, Role
from di_api.defaults import with_defaults
from di_api.field_error import ABSENT, FieldError, InvalidSpec, child, mapping, unknown_field
from di_api.model import CleanPodPolicy, JobSpec, Priority, Scheduling, Task, TaskType
from di_api.names import MAX_LABEL
from di_api.quantity import fault_of_amount
from di_api.rules import broken_rules

__all__ = ["FieldError", "InvalidSpec", "load_spec", "shape_errors"]

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_TASKS: Final = 64
"""Most tasks in a job; bounds the cost of the CRD's rules, which compare tasks pairwise."""
MAX_VOLUMES: Final = 128
MAX_GROUP: Final = 253

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL: Final = (
    f"must be a DNS label: 1 to {MAX_LABEL} lower-case letters, digits and dashes, "
    "with a letter or digit at both ends"
)
_ITEMS: Final = {
    "volumes": "volumes",
    "tasks": "tasks",
    "dependsOn": "names",
    "replicas": "replicas",
}
_UNKNOWN: Final = "unknown field"
_REQUIRED: Final[dict[str, Any]] = {"required": "is required", "null": "is required"}
_NULL_ITEM: Final[dict[str, Any]] = {"null": "must be an object"}
_LIST: Final[dict[str, Any]] = {"invalid": "must be a list"}
_OBJECT: Final[dict[str, Any]] = {"type": "must be an object", "unknown": _UNKNOWN}

Check = Callable[[object], None]


def load_spec(spec: Mapping[str, Any]) -> JobSpec:
    """Read a raw spec, defaults applied.

    Raises:
        InvalidSpec: the spec breaks rules; the exception has all of them.
    """
    if not isinstance(spec, Mapping):
        raise InvalidSpec([FieldError("spec", spec, "must be an object")])
    full, errors = cut_to_limits(with_defaults(spec))
    errors += [*shape_errors(full), *broken_rules(full)]
    if errors:
        raise InvalidSpec(errors)
    loaded = _SPEC.load(full)
    assert isinstance(loaded, JobSpec)
    return loaded


def cut_to_limits(spec: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """A raw spec with its lists cut to the length they may have, and an error for each cut.

    What is past a limit is not judged: it would cost time and only repeat what is wrong.
    """
    errors: list[FieldError] = []

    def cut(owner: Mapping[str, Any], path: str, limits: Mapping[str, int]) -> dict[str, Any]:
        result = dict(owner)
        for field, limit in limits.items():
            value = result.get(field)
            if isinstance(value, list) and len(value) > limit:
                message = f"must hold at most {limit} {_ITEMS[field]}"
                errors.append(FieldError(f"{path}.{field}", value, message))
                result[field] = value[:limit]
        return result

    result = cut(spec, "spec", {"volumes": MAX_VOLUMES, "tasks": MAX_TASKS})
    if isinstance(result.get("tasks"), list):
        result["tasks"] = [
            cut(task, f"spec.tasks[{index}]", {"dependsOn": MAX_TASKS})
            if isinstance(task, Mapping)
            else task
            for index, task in enumerate(result["tasks"])
        ]
    if isinstance(result.get("coordinated"), Mapping):
        limits = {"replicas": MAX_REPLICAS}
        result["coordinated"] = cut(result["coordinated"], "spec.coordinated", limits)
    return result, errors


def shape_errors(spec: Mapping[str, Any]) -> list[FieldError]:
    """Fields of a spec (defaults applied) that are unknown, missing, mistyped or out of range."""
    found = _SPEC.validate(spec)
    return list(_field_errors(found, spec, "spec", _SPEC_FIELDS))


def is_dns_label(text: object) -> bool:
    """Whether `text` is a DNS label of RFC 1123, as pod and host names must be."""
    # The length is looked at first, so the expression never sees a long text.
    return isinstance(text, str) and len(text) <= MAX_LABEL and bool(_DNS_LABEL.fullmatch(text))


def _whole(minimum: int, maximum: int = MAX_INT32) -> Check:
    def check(value: object) -> None:
        # True is an int to Python and not to JSON.
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValidationError(f"must be a whole number, {minimum} or more")
        if value < minimum:
            raise ValidationError(f"must be {minimum} or more")
        if value > maximum:
            raise ValidationError(f"must be {maximum} or less")

    return check


def _one_of(choices: type[StrEnum]) -> Check:
    values = [choice.value for choice in choices]

    def check(value: object) -> None:
        if value not in values:
            raise ValidationError(f"must be one of {', '.join(values)}")

    return check


def _boolean(value: object) -> None:
    if not isinstance(value, bool):
        raise ValidationError("must be true or false")


def _object(value: object) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("must be an object")


def _short_text(value: object) -> None:
    if not isinstance(value, str):
        raise ValidationError("must be a string")
    if len(value) > MAX_GROUP:
        raise ValidationError(f"must be at most {MAX_GROUP} characters long")


def _dns_label(value: object) -> None:
    if not is_dns_label(value):
        raise ValidationError(_LABEL)


def _replica_role(value: object) -> None:
    roles = [role.value for role in Role if role is not Role.COORDINATOR]
    if value not in roles:
        raise ValidationError(f"must be one of {', '.join(roles)}")


def _quantities(value: object) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("must be an object of quantities")
    for name, amount in value.items():
        if fault := fault_of_amount(amount):
            raise ValidationError(f"{name[:MAX_GROUP]} {fault}")


def _field(data_key: str, check: Check, *, required: bool = False) -> fields.Raw:
    return fields.Raw(
        data_key=data_key,
        validate=check,
        required=required,
        allow_none=not required,
        error_messages=_REQUIRED,
    )


class _TaskSchema(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE

    name = fields.Raw(
        validate=_dns_label,
        required=True,
        error_messages={
            "required": "is required unless the type is learner, collector or evaluator",
            "null": "is required",
        },
    )
    type = _field("type", _one_of(TaskType), required=True)
    replicas = _field("replicas", _whole(1))
    min_replicas = _field("minReplicas", _whole(1))
    max_replicas = _field("maxReplicas", _whole(1))
    depends_on = fields.List(
        fields.Raw(validate=_dns_label, error_messages={"null": _LABEL}),
        data_key="dependsOn",
        allow_none=True,
        error_messages=_LIST,
    )
    template = _field("template", _object, required=True)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Task:
        return Task(
            **data
            | {
                "type": TaskType(data["type"]),
                "depends_on": tuple(data.get("depends_on") or ()),
            }
        )


def _not_empty(value: object) -> None:
    if not value:
        raise ValidationError("must hold at least one task")


class _SchedulingSchema(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE

    gang = _field("gang", _boolean)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Scheduling:
        return Scheduling(gang=bool(data.get("gang")))


class _RoleSchema(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE

    template = _field("template", _object, required=True)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Mapping[str, Any]:
        template: Mapping[str, Any] = data["template"]
        return template


class _ReplicaSchema(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE

    name = _field("name", _dns_label, required=True)
    role = _field("role", _replica_role, required=True)
    resources = _field("resources", _quantities)
    generation = _field("generation", _whole(0, MAX_INT64))
    aggregator = _field("aggregator", _dns_label)

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Replica:
        return Replica.read(data)


class _CoordinatedSchema(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE

    coordinator = fields.Nested(_RoleSchema, required=True, error_messages=_REQUIRED | _OBJECT)
    collector = fields.Nested(_RoleSchema, allow_none=True, error_messages=_OBJECT)
    learner = fields.Nested(_RoleSchema, allow_none=True, error_messages=_OBJECT)
    priority_class_name = _field("priorityClassName", _short_text)
    replicas = fields.List(
        fields.Nested(_ReplicaSchema, error_messages=_NULL_ITEM),
        allow_none=True,
        error_messages=_LIST,
    )

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> Coordinated:
        return Coordinated(**data | {"replicas": tuple(data.get("replicas") or ())})


class _SpecSchema(Schema):
    error_messages = _OBJECT

    class Meta:
        unknown = RAISE

    priority = _field("priority", _one_of(Priority))
    clean_pod_policy = _field("cleanPodPolicy", _one_of(CleanPodPolicy))
    preemptible = _field("preemptible", _boolean)
    backoff_limit = _field("backoffLimit", _whole(0))
    group = _field("group", _short_text)
    volumes = fields.List(
        fields.Raw(validate=_object, error_messages=_NULL_ITEM),
        allow_none=True,
        error_messages=_LIST,
    )
    tasks = fields.List(
        fields.Nested(_TaskSchema, error_messages=_NULL_ITEM),
        allow_none=True,
        validate=_not_empty,
        error_messages=_LIST,
    )
    coordinated = fields.Nested(_CoordinatedSchema, allow_none=True, error_messages=_OBJECT)
    scheduling = fields.Nested(_SchedulingSchema, allow_none=True, error_messages=_OBJECT)
    suspend = _field("suspend", _boolean)
    active_deadline_seconds = _field("activeDeadlineSeconds", _whole(1, MAX_INT64))
    ttl_seconds_after_finished = _field("ttlSecondsAfterFinished", _whole(0))

    @post_load
    def make(self, data: dict[str, Any], **_: Any) -> JobSpec:
        return JobSpec(
            **data
            | {
                "priority": Priority(data["priority"]),
                "clean_pod_policy": CleanPodPolicy(data["clean_pod_policy"]),
                "volumes": tuple(data.get("volumes") or ()),
                "tasks": tuple(data.get("tasks") or ()),
                "scheduling": data.get("scheduling") or Scheduling(),
            }
        )


_SPEC: Final = _SpecSchema()


def _names_in(schema: Schema) -> tuple[str, ...]:
    return tuple(field.data_key or name for name, field in schema.fields.items())


_SPEC_FIELDS: Final = _names_in(_SPEC)
# By the field of the spec that holds objects of ours.
_INNER_FIELDS: Final[Mapping[object, tuple[str, ...]]] = {
    "tasks": _names_in(_TaskSchema()),
    "scheduling": _names_in(_SchedulingSchema()),
    "coordinated": _names_in(_CoordinatedSchema()),
    **dict.fromkeys(("coordinator", "collector", "learner"), _names_in(_RoleSchema())),
    "replicas": _names_in(_ReplicaSchema()),
}


def _field_errors(
    found: Mapping[Any, Any], value: object, path: str, known: tuple[str, ...]
) -> Iterator[FieldError]:
    """Turn the schema's nested messages, keyed by field or index, into paths and values."""
    for key, below in found.items():
        if key == "_schema" and not isinstance(value, Mapping):
            yield FieldError(path, value, "must be an object")
            continue
        inner = value[key] if isinstance(value, list) else mapping(value).get(key, ABSENT)
        if isinstance(below, Mapping):
            inner_fields = _INNER_FIELDS.get(key, known)
            yield from _field_errors(below, inner, child(path, key), inner_fields)
            continue
        for message in below:
            if message == _UNKNOWN:
                yield unknown_field(path, key, inner, known)
            else:
                yield FieldError(child(path, key), inner, message)
