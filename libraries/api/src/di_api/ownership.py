"""Whose an object is: the one rule for every service.

Names are used again and labels are written by anybody, so neither tells whose a pod is. Only the
controller reference does, by the UID in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import DISPATCHER, GROUP, KIND, MANAGER

_OF_THE_MANAGER: Final = ("suspend", "ttlSecondsAfterFinished")
"""Fields that mean something in the manager's cluster while another runs the job."""


def controlling_job(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The reference to the DIJob that controls an object, None if no DIJob does.

    Takes objects of any shape: whatever cannot be read controls nothing.
    """
    for raw in items(mapping(found.get("metadata")).get("ownerReferences")):
        owner = mapping(raw)
        # Another API group may have a kind of the same name.
        group = str(owner.get("apiVersion") or "").partition("/")[0]
        if owner.get("controller") is True and owner.get("kind") == KIND and group == GROUP:
            return owner
    return None


def controller_uid(found: Mapping[str, Any]) -> str | None:
    """UID of the DIJob that controls an object."""
    owner = controlling_job(found)
    uid = owner.get("uid") if owner else None
    return uid if isinstance(uid, str) else None


def is_controlled_by(found: Mapping[str, Any], uid: str) -> bool:
    """Whether the DIJob of that UID controls an object."""
    return controller_uid(found) == uid


def is_of_earlier_job(found: Mapping[str, Any], *, name: str, uid: str) -> bool:
    """Whether an object of the job's namespace was made for an earlier job of the same name."""
    return names_earlier_job(controlling_job(found), name=name, uid=uid)


def names_earlier_job(owner: Mapping[str, Any] | None, *, name: str, uid: str) -> bool:
    """Whether such a reference is to an earlier job of the same name."""
    return owner is not None and owner.get("name") == name and owner.get("uid") != uid


def is_managed_elsewhere(job: Mapping[str, Any]) -> bool:
    """Whether another controller runs the job."""
    return mapping(job.get("spec")).get("managedBy") not in (None, "", MANAGER)


def is_dispatched(job: Mapping[str, Any]) -> bool:
    """Whether MultiKueue has the job run in another cluster."""
    return mapping(job.get("spec")).get("managedBy") == DISPATCHER


def dispatched_part(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Of the spec of such a job what the cluster that runs it goes by."""
    return {key: value for key, value in spec.items() if key not in _OF_THE_MANAGER}
