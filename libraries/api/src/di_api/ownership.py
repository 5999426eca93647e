"""The owner of an object: the one rule for all services.

Names are reused and any client can write labels, so neither shows the owner of a pod. Only the
controller reference does, by its UID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import DISPATCHER, GROUP, KIND, MANAGER, SWEEP_KIND

_OF_THE_MANAGER: Final = ("suspend", "ttlSecondsAfterFinished")
"""Fields that apply in the manager's cluster while another cluster runs the job."""


def controlling_job(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the reference to the DIJob that controls an object, None if no DIJob does.

    Accepts objects of any shape: an unreadable reference controls nothing.
    """
    return _controller(found, KIND)


def sweep_uid(job: Mapping[str, Any]) -> str | None:
    """Return the UID of the DISweep that controls a job; None: the job is not a trial."""
    uid = mapping(_controller(job, SWEEP_KIND)).get("uid")
    return uid if isinstance(uid, str) else None


def _controller(found: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    try:
        references = found["metadata"]["ownerReferences"]
    except (KeyError, TypeError):
        return None
    for owner in map(mapping, items(references)):
        # Another API group can have a kind of the same name.
        group = str(owner.get("apiVersion") or "").partition("/")[0]
        if owner.get("controller") is True and owner.get("kind") == kind and group == GROUP:
            return owner
    return None


def controller_uid(found: Mapping[str, Any]) -> str | None:
    """Return the UID of the DIJob that controls an object."""
    owner = controlling_job(found)
    uid = owner.get("uid") if owner else None
    return uid if isinstance(uid, str) else None


def is_controlled_by(found: Mapping[str, Any], uid: str) -> bool:
    """Return whether the DIJob of that UID controls an object."""
    return controller_uid(found) == uid


def is_of_earlier_job(found: Mapping[str, Any], *, name: str, uid: str) -> bool:
    """Return whether an object of the job's namespace was created for an earlier job of the same
    name.
    """
    return names_earlier_job(controlling_job(found), name=name, uid=uid)


def names_earlier_job(owner: Mapping[str, Any] | None, *, name: str, uid: str) -> bool:
    """Return whether such a reference is to an earlier job of the same name."""
    return owner is not None and owner.get("name") == name and owner.get("uid") != uid


def is_managed_elsewhere(job: Mapping[str, Any]) -> bool:
    """Return whether another controller runs the job."""
    return mapping(job.get("spec")).get("managedBy") not in (None, "", MANAGER)


def is_dispatched(job: Mapping[str, Any]) -> bool:
    """Return whether MultiKueue runs the job in another cluster."""
    return mapping(job.get("spec")).get("managedBy") == DISPATCHER


def dispatched_part(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of such a job's spec that the cluster that runs it uses."""
    return {key: value for key, value in spec.items() if key not in _OF_THE_MANAGER}
