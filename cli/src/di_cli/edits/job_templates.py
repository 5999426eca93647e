"""Jobs with the defaults of a DIJobTemplate or ClusterDIJobTemplate; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from di_api import names
from di_api.base_template import BASE
from di_api.field_error import items, mapping
from di_api.template_patch import patched

Object = dict[str, Any]
_TASKS = "tasks"


def with_template(job: Mapping[str, Any], template: Mapping[str, Any]) -> Object:
    """Return the job with the fields of a template that it does not set itself.

    It is a JSON merge patch of the template by the job, with volumes, containers and variables
    merged by name. Each task gets the base of the template first, then what the template has for
    its type, then for its name. Kind, name and hash of the template are annotations of the job.
    """
    given = mapping(template.get("spec"))
    defaults, own = mapping(given.get("job")), mapping(job.get("spec"))
    spec: Object = patched(
        {key: value for key, value in defaults.items() if key not in (BASE, _TASKS)},
        {key: value for key, value in own.items() if key != _TASKS},
    )
    if _TASKS in own:
        spec[_TASKS] = [
            patched(_defaults_of(task, defaults), task) if isinstance(task, Mapping) else task
            for task in items(own[_TASKS])
        ]
    return {**job, "metadata": _metadata(job, template), "spec": spec}


def hash_of(template: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a template's spec, which does not depend on the order of its keys."""
    text = json.dumps(template.get("spec"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _defaults_of(task: Mapping[str, Any], defaults: Mapping[str, Any]) -> Object:
    """Return what a template has for a task."""
    found: Object = {BASE: defaults[BASE]} if isinstance(defaults.get(BASE), Mapping) else {}
    fitting = [each for each in map(mapping, items(defaults.get(_TASKS))) if _is_for(each, task)]
    for each in sorted(fitting, key=lambda each: "name" in each):
        others = {key: value for key, value in each.items() if key not in ("name", "type")}
        found = patched(found, others)
    return found


def _is_for(each: Mapping[str, Any], task: Mapping[str, Any]) -> bool:
    kind = task.get("type")
    if "name" in each:
        return bool(each["name"] == (task.get("name") or kind))
    return each.get("type") in (None, kind)


def _metadata(job: Mapping[str, Any], template: Mapping[str, Any]) -> Object:
    own, given = (
        mapping(job.get("metadata")),
        mapping(mapping(template.get("spec")).get("metadata")),
    )
    labels = {**mapping(given.get("labels")), **mapping(own.get("labels"))}
    name = mapping(template.get("metadata")).get("name")
    annotations = {
        **mapping(given.get("annotations")),
        **mapping(own.get("annotations")),
        names.ANNOTATION_JOB_TEMPLATE: f"{template.get('kind')}/{name}",
        names.ANNOTATION_JOB_TEMPLATE_HASH: hash_of(template),
    }
    return {**own, **({"labels": labels} if labels else {}), "annotations": annotations}
