"""Parsing of a spec that was admitted under other rules than those of this version.

A running job is not validated again: its spec can come from a version with fewer rules (before an
upgrade) or with more fields (before a rollback). So rules are not applied here and unknown fields
are ignored. Types are checked, because pods are created and deleted by the parsed values. The
parser never guesses; one value that it cannot parse makes the whole spec unreadable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from di_api.defaults import with_defaults
from di_api.field_error import ABSENT, FieldError, InvalidSpec, child
from di_api.spec.bounds import MAX_PODS
from di_api.spec.job import JobSpec
from di_api.spec.raw import object_of, objects_of, text_of
from di_api.spec.reading import read
from di_api.spec.task import Task
from di_api.spec.template import Template
from di_api.template_patch import fault_of_patch
from di_api.validation.templates.rules import coordinated_templates

MAX_READABLE_REPLICAS: Final = 4 * MAX_PODS
"""Maximum number of pods of a job that was admitted without today's bound.

The node list of a larger job never fitted into its ConfigMap, so no such job has ever run. A job of
that size now bypassed the webhook, and planning its pods would delay all others.
"""

_Object = tuple[str, Mapping[str, Any]]
"""A raw object and its path."""
_Templates = Callable[[], tuple[Template, ...]]


def load_leniently(spec: object) -> JobSpec:
    """Parse a raw spec with defaults, checking only its types.

    Raises:
        InvalidSpec: a value has a type or an enumeration member that this version does not support,
            or the spec does not determine its pods; the exception has the first error.
    """
    full = with_defaults(object_of(spec, "spec"))
    result = read(JobSpec, full, "spec")
    if bool(result.tasks) == (result.coordinated is not None):
        value = full.get("tasks", ABSENT)
        raise InvalidSpec([FieldError("spec.tasks", value, "a job has tasks or a coordinator")])
    _check_names(_objects(("spec", full), "volumes"))
    for index, task in enumerate(result.tasks):
        _check_template((f"spec.tasks[{index}].template", task.template))
        for where, patch, templates in _patched(f"spec.tasks[{index}]", task):
            if fault := fault_of_patch(patch):
                raise InvalidSpec([FieldError(where, patch, fault)])
            for made in templates():
                _check_template((where, made))
    for path, template in coordinated_templates(full):
        if isinstance(template, Mapping):
            _check_template((path, template))
    _check_pods(result, full)
    return result


def _patched(path: str, task: Task) -> Iterator[tuple[str, Mapping[str, Any], _Templates]]:
    """Yield the patches of a task, with their paths and the results of applying them."""
    if task.leader_template_patch is not None:
        yield (
            f"{path}.leaderTemplatePatch",
            task.leader_template_patch,
            lambda: (task.leader_template,),
        )
    if task.elastic is not None and task.elastic.template_patch is not None:
        yield (
            f"{path}.elastic.templatePatch",
            task.elastic.template_patch,
            lambda: task.elastic_templates,
        )


def _check_template(template: _Object) -> None:
    """Check that the parts of a template from which pods are created exist and have the right
    types.
    """
    if metadata := _object(template, "metadata"):
        _object(metadata, "labels")
        _object(metadata, "annotations")
    spec = _object(template, "spec")
    if spec is None or not _objects(spec, "containers"):
        path, raw = template
        message = "must hold at least one container"
        raise InvalidSpec([FieldError(child(path, "spec"), raw.get("spec", ABSENT), message)])
    _text(spec, "restartPolicy")
    _check_names(_objects(spec, "volumes"))
    for container in (*_objects(spec, "containers"), *_objects(spec, "initContainers")):
        _text(container, "name")
        _check_names(_objects(container, "env"))
        for mount in _objects(container, "volumeMounts"):
            _text(mount, "mountPath")
        _check_names(_objects(container, "ports"))
        if resources := _object(container, "resources"):
            _object(resources, "requests")
            _object(resources, "limits")


def _check_names(entries: Iterable[_Object]) -> None:
    for entry in entries:
        _text(entry, "name")


def _text(owner: _Object, key: str) -> None:
    path, raw = owner
    if raw.get(key) is not None:
        text_of(raw[key], child(path, key))


def _object(owner: _Object, key: str) -> _Object | None:
    path, raw = owner
    if raw.get(key) is None:
        return None
    below = child(path, key)
    return below, object_of(raw[key], below)


def _objects(owner: _Object, key: str) -> list[_Object]:
    path, raw = owner
    return [] if raw.get(key) is None else objects_of(raw[key], child(path, key))


def _check_pods(spec: JobSpec, raw: Mapping[str, Any]) -> None:
    """Check that pod names are unique and that the number of pods is within the bound."""
    coordinated = spec.coordinated
    if coordinated is not None:
        field, names = "coordinated", [replica.name for replica in coordinated.replicas]
    else:
        field, names = "tasks", [task.name for task in spec.tasks]
    wrong = None
    if len(set(names)) < len(names):
        wrong = "a name is repeated"
    elif spec.replicas > MAX_READABLE_REPLICAS:
        wrong = f"{spec.replicas} pods, more than {MAX_READABLE_REPLICAS} have never run"
    if wrong is not None:
        raise InvalidSpec([FieldError(f"spec.{field}", raw.get(field, ABSENT), wrong)])
