"""Additions to pods that are needed to use the quota that Kueue assigned.

These are the node labels and tolerations of the ResourceFlavors, and the updates that the admission
checks request (`podSetUpdates`), see https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from di_api.field_error import items, mapping
from di_api.spec import Template
from di_operator.kueue.workload import Object, Workload

FindFlavor = Callable[[str], Object | None]
"""Function from the name of a ResourceFlavor to the object, None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Additions to a pod template."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to add."""
        return not (self.labels or self.annotations or self.node_selector or self.tolerations)

    def into(self, template: Template) -> Template:
        """Return the template with the additions; the same object if nothing changes."""
        if self.is_empty or not template:
            return template
        metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
        for key, added in (("labels", self.labels), ("annotations", self.annotations)):
            if added:
                metadata[key] = {**(metadata.get(key) or {}), **added}
        if self.node_selector:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **self.node_selector}
        if self.tolerations:
            present = list(spec.get("tolerations") or ())
            spec["tolerations"] = [*present, *(t for t in self.tolerations if t not in present)]
        return {**template, "metadata": metadata, "spec": spec}


def flavors_of(workload: Workload, pod_set: str) -> tuple[str, ...]:
    """Return the names of the flavors assigned to a podSet, in order."""
    flavors = mapping(mapping(workload.assigned.get(pod_set)).get("flavors"))
    return tuple(sorted({str(name) for name in flavors.values()}))


def unknown_flavors(workload: Workload, find: FindFlavor) -> tuple[str, ...]:
    """Return the assigned flavors that do not exist."""
    names = {name for pod_set in workload.assigned for name in flavors_of(workload, pod_set)}
    return tuple(sorted(name for name in names if find(name) is None))


def injection_of(workload: Workload, pod_set: str, find: FindFlavor) -> Injection:
    """Return the additions to the pods of a podSet; unknown flavors add nothing."""
    flavors = [mapping((find(name) or {}).get("spec")) for name in flavors_of(workload, pod_set)]
    updates = [*_updates(workload, pod_set)]
    return Injection(
        labels=_merged(updates, "labels"),
        annotations=_merged(updates, "annotations"),
        node_selector={**_merged(flavors, "nodeLabels"), **_merged(updates, "nodeSelector")},
        tolerations=tuple(
            mapping(one) for each in (*flavors, *updates) for one in items(each.get("tolerations"))
        ),
    )


def _updates(workload: Workload, pod_set: str) -> Iterator[Object]:
    checks = map(mapping, items(mapping(workload.raw.get("status")).get("admissionChecks")))
    for check in checks:
        for update in map(mapping, items(check.get("podSetUpdates"))):
            if update.get("name") == pod_set:
                yield update


def _merged(parts: Iterable[Object], key: str) -> dict[str, str]:
    merged: dict[str, str] = {}
    for part in parts:
        merged.update({str(name): str(value) for name, value in mapping(part.get(key)).items()})
    return merged
