"""Warnings about fields of pod templates that the operator overrides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from di_api.difference import first_difference
from di_api.field_error import items, mapping
from di_api.spec.bounds import MAX_TASKS
from di_api.spec.failure import FailureAction

_MOST: Final = 16
"""Maximum number of warnings of one review; the API server cuts them at 4 KiB in total."""
_LONGEST: Final = 64
_TEMPLATES: Final = ("template", "leaderTemplatePatch")
_NETWORK: Final = ("hostname", "subdomain")
_NEVER: Final = "Never"

Object = Mapping[str, Any]


def overruled(job: Object, before: Object | None) -> list[str]:
    """Return the warnings about a job of any shape, up to the maximum.

    Args:
        job: the new job.
        before: the existing job; templates that it already has cause no warning. None: the job is
            new.
    """
    return list(islice(_warnings(job, before), _MOST))


def _warnings(job: Object, before: Object | None) -> Iterator[str]:
    spec, old = mapping(job.get("spec")), mapping(mapping(before).get("spec"))
    old_tasks = items(old.get("tasks"))
    for index, task in enumerate(map(mapping, items(spec.get("tasks"))[:MAX_TASKS])):
        was = mapping(old_tasks[index] if index < len(old_tasks) else None)
        for field in _TEMPLATES:
            template = mapping(task.get(field))
            path = f"spec.tasks[{index}].{field}.spec"
            found = [*_of_pods(path, mapping(template.get("spec")), spec)]
            # Templates are compared last, because a large one takes a fiftieth of a second.
            if found and first_difference(was.get(field), template) is not None:
                yield from found


def _of_pods(path: str, pods: Object, spec: Object) -> Iterator[str]:
    policy = pods.get("restartPolicy")
    if policy not in (None, _NEVER) and not _restarts_in_place(spec):
        yield (
            f"{path}.restartPolicy: {_shown(policy)} is overruled: the operator makes pods with "
            "Never and replaces those that fail; see failurePolicy and backoffLimit"
        )
    for field in _NETWORK:
        if (value := pods.get(field)) is not None:
            yield f"{path}.{field}: {_shown(value)} is overruled: a pod goes by its own name"
    if pods.get("nodeName") is not None and spec.get("preemptible") is True:
        yield (
            f"{path}.nodeName: {_shown(pods['nodeName'])} is overruled: the allocator chooses the "
            "nodes of a preemptible job"
        )
    if pods.get("hostNetwork") is True and pods.get("dnsPolicy") is None:
        yield (
            f"{path}.dnsPolicy: is set to ClusterFirstWithHostNet, because a pod on the network of "
            "its host finds the others by the cluster's DNS alone"
        )


def _restarts_in_place(spec: Object) -> bool:
    rules = items(mapping(spec.get("failurePolicy")).get("rules"))
    return any(mapping(rule).get("action") == FailureAction.RESTART_IN_PLACE for rule in rules)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else "it"
    return text[:_LONGEST].encode("utf-8", "replace").decode()
