"""The garbage collector of the cluster: what becomes of the objects of an owner that is deleted."""

from __future__ import annotations

from typing import Final

from di_api.names import SWEEP_KIND
from di_kube.resources import DIJOBS
from tests.unit.operator.histories.api import NAMESPACE, RESOURCES, WatchedApi, copied

FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of an owner that goes after its objects."""
ORPHAN: Final = "orphan"
"""Finalizer of an owner that leaves its objects."""
OWNERS: Final = (DIJOBS.kind, SWEEP_KIND)


def collect_garbage(api: WatchedApi) -> None:
    """Do what is to be done now about the objects of owners that are deleted."""
    owners = {
        body["metadata"]["uid"]: (kind, body["metadata"])
        for (kind, _, _), body in api.objects.items()
        if kind in OWNERS
    }
    left = set[str]()
    for (kind, _, name), body in list(api.objects.items()):
        if not (references := body["metadata"].get("ownerReferences")):
            continue
        owner = references[0]["uid"]
        finalizers = owners[owner][1].get("finalizers", ()) if owner in owners else ()
        if ORPHAN in finalizers:
            orphan = copied(body)
            del orphan["metadata"]["ownerReferences"]
            api.put(RESOURCES[kind], NAMESPACE, orphan)
        elif owner not in owners or FOREGROUND in finalizers:
            left.add(owner)
            if "deletionTimestamp" not in body["metadata"]:
                api.request_deletion(kind, name)
    for uid, (kind, metadata) in owners.items():
        if metadata.get("finalizers") and uid not in left:
            api.remove(kind, metadata["name"])
