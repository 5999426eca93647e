"""The schemas of the specs in the CRDs, derived from the declarations in `di_api.spec`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from di_api.base_template import ABOUT, BASE
from di_api.companions import COMPANION_NAME, LONGEST_COMPANION_NAME
from di_api.conversion.versions import fields_of_older_versions
from di_api.crd.changes import fixed_fields, may_change
from di_api.crd.core_schema import Schema, as_one_value, loose_template_schema
from di_api.crd.document import Shared
from di_api.spec.aggregator import AggregatorConfigSpec
from di_api.spec.coordinated import Coordinated, RolePods
from di_api.spec.declared import Field, fields_of
from di_api.spec.free_values import Choice
from di_api.spec.job import JobSpec
from di_api.spec.job_task import JobTaskSpec
from di_api.spec.kinds import (
    Companions,
    JobTemplate,
    Labels,
    List,
    PodTemplate,
    Struct,
    Structs,
    TemplatePatch,
    Texts,
    Values,
    Volumes,
)
from di_api.spec.task_service import Protocol
from di_api.sweeps.spec import SweepSpec
from di_api.validation.relations.row import Rule

_OF_JOB_TASK: Final[Rule] = {
    # Evaluated for writes to the scale subresource too.
    "rule": "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
    # Without string(), for which the API server estimates an unbounded cost.
    "messageExpression": "'the task may have %d to %d replicas (minReplicas, maxReplicas "
    "of the task in the job)'.format([self.minReplicas, self.maxReplicas])",
    "message": "replicas must be between minReplicas and maxReplicas",
    "fieldPath": ".replicas",
}
LONGEST_DESCRIPTION: Final = 1024
ABOUT_BASE: Final = "Base of the templates of all tasks of a job, as core/v1 PodTemplateSpec."
_NOT_IN_TEMPLATES: Final = ("code", "coordinated", "restartedAt")
"""Fields of a single job."""
_OF_WHOLE_OBJECTS: Final = (
    *("required", "default", "x-kubernetes-validations"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
)
_ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Without an enumeration: the webhook accepts older spellings and has better messages.
_OLDER_POLICY: Final[Schema] = {
    "type": "string",
    "description": "Which pods are deleted when the job ends, Running (default), All or None.",
}


@dataclass(frozen=True, slots=True)
class SpecSchemas:
    """Builds the schemas from the one of a pod template, see `core_schema.pod_template_schema`."""

    template: Schema

    def newest(self) -> Schema:
        """Return the schema of the spec in the stored version."""
        changing = list(may_change(JobSpec))
        about = (
            f"What to run. While the job exists only {', '.join(changing[:-1])} and {changing[-1]} "
            "may change; once it has finished, nothing."
        )
        schema = self._object(JobSpec)
        base = {"description": ABOUT, **_base_schema()}
        return {
            "type": "object",
            "description": about,
            **schema,
            "properties": {**schema["properties"], BASE: base},
        }

    def older(self) -> Schema:
        """Return the schema of the spec in the older versions, which is that of
        `spec.coordinated`.
        """
        declared = {**fields_of(JobSpec), **fields_of(Coordinated)}
        shown = [each for each in declared.values() if each.name in _older_fields()]
        changing = ", ".join(each.name for each in shown if each.declared.may_change)
        about = f"What to run. While the job exists only {changing} may change."
        fields = {each.name: self._field(each) for each in shown}
        fields["cleanPodPolicy"] = _OLDER_POLICY
        # The stored version validates their content.
        del fields["volumes"]["x-kubernetes-list-type"]
        del fields["volumes"]["x-kubernetes-list-map-keys"]
        fields["volumes"]["items"] = _ANYTHING
        return {"type": "object", "description": about, "properties": fields}

    def aggregator_config(self) -> Schema:
        """Return the schema of an AggregatorConfig's spec, the same in all versions."""
        about = "What aggregators are made from."
        return {"type": "object", "description": about, **self._object(AggregatorConfigSpec)}

    def job_task(self) -> Schema:
        """Return the schema of a DIJobTask's spec."""
        about = "What the task is to have; spec.tasks of the job has it all."
        rules = [_OF_JOB_TASK, *fixed_fields(JobTaskSpec)]
        return {"type": "object", "description": about, **self._object(JobTaskSpec, rules)}

    def sweep(self) -> Schema:
        """Return the schema of a DISweep's spec; the operator checks what its fields have to do
        with each other, and the jobs of its trials.
        """
        about = "The trials to run. Changes of the parameters apply to later trials."
        return {"type": "object", "description": about, **self._object(SweepSpec)}

    def job_template(self) -> Schema:
        """Return the schema of the spec of a DIJobTemplate and a ClusterDIJobTemplate.

        Its `job` is checked as the spec of a job, but nothing is required, and pod templates can
        have any content.
        """
        declared = fields_of(JobSpec).values()
        fields = [each for each in declared if each.name not in _NOT_IN_TEMPLATES]
        job = _partial({each.name: self._field(each) for each in fields})
        job["volumes"]["items"] = _ANYTHING
        job["tasks"]["items"]["properties"][BASE] = _ANYTHING
        texts = {"type": "object", "additionalProperties": {"type": "string"}}
        metadata = {
            "labels": {**texts, "description": "Labels of the jobs."},
            "annotations": {**texts, "description": "Annotations of the jobs."},
        }
        return {
            "type": "object",
            "description": "What jobs are made with. A job that exists does not change with it.",
            "required": ["job"],
            "properties": {
                "description": {
                    "type": "string",
                    "maxLength": LONGEST_DESCRIPTION,
                    "description": "What the template is for, as di templates shows it.",
                },
                "metadata": {"type": "object", "properties": metadata},
                "job": {
                    "type": "object",
                    "description": "A part of the spec of a DIJob. The job's own fields replace "
                    "those of the template. An item of tasks is for all tasks of its type or name.",
                    "properties": {**job, BASE: {"description": ABOUT_BASE, **_ANYTHING}},
                },
            },
        }

    def _object(self, owner: type, rules: Sequence[Rule] = ()) -> Schema:
        declared = fields_of(owner).values()
        required = [e.name for e in declared if e.is_required and not e.declared.default_from]
        return {
            **({"required": required} if required else {}),
            **({"x-kubernetes-validations": [*rules]} if rules else {}),
            "properties": {each.name: self._field(each) for each in declared},
        }

    def _field(self, field: Field) -> Schema:
        stage = f"{field.stage.capitalize()}. " if field.stage else ""
        about = {"description": stage + field.declared.about.replace("`", "")}
        is_written = field.default is not None and field.declared.is_in_schema
        default = {"default": field.default} if is_written else {}
        match kind := field.kind:
            case PodTemplate() | TemplatePatch() | JobTemplate():
                return {**about, **self._template(kind)}
            case Struct():
                return self._struct(kind, about)
            case Labels() | Texts() | Values() | Volumes() | Companions() | Structs():
                return {"type": "array", **about, **self._list(kind)}
            case _:
                return {**kind.schema(about), **default}

    def _template(self, kind: PodTemplate | TemplatePatch | JobTemplate) -> Schema:
        if isinstance(kind, PodTemplate):
            return loose_template_schema(self.template) if kind.is_loose else self.template
        return _ANYTHING

    def _struct(self, kind: Struct, about: Schema) -> Schema:
        schema = {"type": "object", **about, **self._object(kind.of)}
        # Equal for all roles, in all versions.
        return Shared("role", schema) if kind.of is RolePods else schema

    def _list(self, kind: List) -> Schema:
        least = kind.least if isinstance(kind, Values | Structs) else 0
        most = {"maxItems": kind.most}
        lowest = {"minItems": least} if least else {}
        match kind:
            case Structs():
                # Not a map by name: what writes one of its items writes all.
                item = as_one_value({"type": "object", **self._object(kind.of)})
                return {**lowest, **most, "x-kubernetes-list-type": "atomic", "items": item}
            case Companions():
                return {**most, "x-kubernetes-list-type": "atomic", "items": _companion_schema()}
            case Volumes():
                item = self.template["properties"]["spec"]["properties"]["volumes"]["items"]
                keys = {"x-kubernetes-list-map-keys": ["name"]}
                return {**most, "x-kubernetes-list-type": "map", **keys, "items": item}
            case Labels() | Texts() | Values():
                # Items of a set have a type that the schema names.
                is_set = not isinstance(kind, Texts) and not isinstance(kind.of_items, Choice)
                listed = {"x-kubernetes-list-type": "set" if is_set else "atomic"}
                return {**most, **lowest, **listed, "items": kind.of_items.schema({})}


def _base_schema() -> Schema:
    """Return the schema of the base of templates: any content, with the default that templates
    have. Otherwise an applied file would differ from the stored templates.
    """
    protocol = {"type": "string", "default": Protocol.TCP.value}
    ports = {"type": "array", "items": {**_ANYTHING, "properties": {"protocol": protocol}}}
    containers = {"type": "array", "items": {**_ANYTHING, "properties": {"ports": ports}}}
    both = {"containers": containers, "initContainers": containers}
    return {**_ANYTHING, "properties": {"spec": {**_ANYTHING, "properties": both}}}


def _partial(node: Any) -> Any:
    """Return a part of a schema without what only a whole object has: required fields, defaults,
    rules, and lists whose items have keys.
    """
    if isinstance(node, list):
        return [_partial(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _partial(each) for name, each in value.items()}
        if key == "properties"
        else _partial(value)
        for key, value in node.items()
        if key not in _OF_WHOLE_OBJECTS
    }


def _companion_schema() -> Schema:
    """Return the schema of an object of any kind; the API server itself checks the common
    fields.
    """
    name = {"type": "string", "pattern": f"^{COMPANION_NAME}$", "maxLength": LONGEST_COMPANION_NAME}
    return {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "required": ["metadata"],
        "properties": {"metadata": {"type": "object", "properties": {"name": name}}},
    }


def _older_fields() -> frozenset[str]:
    return fields_of_older_versions()["spec"]
