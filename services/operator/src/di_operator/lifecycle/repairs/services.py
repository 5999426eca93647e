"""Repairs of a job's Services whose selector or ports were edited by hand.

The operator owns the fields that it writes, and no others. Without its selector, a Service sends
clients to no pod of the job, or to other pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import mapping
from di_kube.resources import SERVICES
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import count_of
from di_operator.lifecycle.policies.deletion import is_terminating
from di_operator.lifecycle.policy import Policy, Repair
from di_operator.lifecycle.vocabulary.actions import Patch
from di_operator.lifecycle.vocabulary.decision import JobEvent, Settings
from di_operator.lifecycle.vocabulary.reasons import Reason

Object = Mapping[str, Any]

_OWNED: Final = ("selector", "ports", "publishNotReadyAddresses")
"""Fields of the spec that the operator writes and may change; `clusterIP` cannot be changed."""


def repair_services(snapshot: Snapshot, settings: Settings) -> Repair:
    """Return the patches for existing Services that differ from their recipes."""
    if not snapshot.services:
        return Repair()
    recipes = job_type_of(snapshot.job, snapshot.spec).services(snapshot)
    present = {found["metadata"]["name"]: found for found in snapshot.services}
    patches = []
    for recipe in recipes:
        wanted = recipe.build()
        found = present.get(wanted["metadata"]["name"])
        if found is None or is_terminating(found):
            continue
        if changes := dict(_changes(mapping(found.get("spec")), wanted["spec"])):
            metadata = found["metadata"]
            patches.append(
                Patch(
                    resource=SERVICES,
                    namespace=metadata["namespace"],
                    name=metadata["name"],
                    uid=metadata["uid"],
                    resource_version=metadata["resourceVersion"],
                    patch={"spec": changes},
                )
            )
    return Repair(actions=tuple(patches), events=_events(patches))


def _events(patches: list[Patch]) -> tuple[JobEvent, ...]:
    """Return one event about all patches; its count grows."""
    if not patches:
        return ()
    first = patches[0]
    fields = ", ".join(first.patch["spec"])
    message = f"Service {first.name} was edited by hand, {fields} put right"
    if len(patches) > 1:
        message = f"{message} (and {count_of(len(patches) - 1, 'more Service')})"
    return (JobEvent(reason=Reason.SERVICE_RESTORED, message=message),)


def _changes(found: Object, wanted: Object) -> Iterator[tuple[str, object]]:
    """Yield the fields that differ, for a merge patch."""
    for field in _OWNED:
        is_there, ours = found.get(field), wanted.get(field)
        if field == "selector":
            others = dict.fromkeys(mapping(is_there).keys() - mapping(ours).keys())
            if is_there != ours:
                yield field, {**others, **mapping(ours)}
        elif field == "ports":
            if not _are_as_wanted(is_there, mapping(wanted)["ports"]):
                yield field, ours
        elif bool(is_there) != bool(ours):
            yield field, bool(ours)


def _are_as_wanted(found: object, wanted: list[Object]) -> bool:
    """Return whether the written fields of ports are unchanged; the API server adds others."""
    if not isinstance(found, list) or len(found) != len(wanted):
        return False
    return all(
        isinstance(port, Mapping) and ours.items() <= port.items()
        for port, ours in zip(found, wanted, strict=True)
    )


EDITED_SERVICES: Final = Policy(repair=repair_services)
