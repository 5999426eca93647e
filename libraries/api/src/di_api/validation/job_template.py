"""Validation of a DIJobTemplate or ClusterDIJobTemplate: the errors that no job can repair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from di_api.base_template import BASE
from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.template_patch import fault_of_patch
from di_api.validation.templates.core_types import template_errors, volumes_errors
from di_api.validation.templates.pod_rules import pod_faults

_JOB: Final = "spec.job"
_CONTAINERS: Final = ("initContainers", "containers")


def job_template_errors(
    template: Mapping[str, Any], check: Callable[[], None]
) -> Iterator[FieldError]:
    """Yield the errors in the pod templates, volumes and labels of a template, in linear time.

    Fields that are missing are no errors, because a job can have them. The CRD has the schema of
    all other fields.

    Args:
        template: raw, of any shape.
        check: called between pieces of work; raises to stop the validation.
    """
    spec = mapping(template.get("spec"))
    job = mapping(spec.get("job"))
    yield from pod_faults("spec", {"metadata": spec.get("metadata")}, set())
    if isinstance(volumes := job.get("volumes"), list):
        yield from (each for each in volumes_errors(f"{_JOB}.volumes", volumes) if _is_wrong(each))
    tasks = enumerate(items(job.get("tasks")))
    parts = ((f"{_JOB}.tasks[{index}].{BASE}", mapping(task).get(BASE)) for index, task in tasks)
    for path, part in ((f"{_JOB}.{BASE}", job.get(BASE)), *parts):
        check()
        if isinstance(part, Mapping):
            yield from _of_pods(path, part)


def _of_pods(path: str, template: Mapping[str, Any]) -> Iterator[FieldError]:
    if fault := fault_of_patch(template):
        yield FieldError(path, template, fault)
        return
    known = set[str]()
    for error in template_errors(path, template):
        if _is_wrong(error):
            known.add(error.path)
            yield error
    for error in pod_faults(path, template, _mounted(template)):
        if _is_wrong(error) and error.path not in known:
            yield error


def _is_wrong(error: FieldError) -> bool:
    return error.value is not ABSENT


def _mounted(template: Mapping[str, Any]) -> set[str]:
    """Return the names of the volumes that containers mount, which a job can have."""
    pod = mapping(template.get("spec"))
    return {
        name
        for field in _CONTAINERS
        for container in map(mapping, items(pod.get(field)))
        for mount in map(mapping, items(container.get("volumeMounts")))
        if isinstance(name := mount.get("name"), str)
    }
