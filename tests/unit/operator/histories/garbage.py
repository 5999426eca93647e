"""The garbage collector of the cluster: what becomes of the objects of a job that is deleted."""

from __future__ import annotations

from typing import Final

from di_api.ownership import controlling_job
from di_kube.resources import DIJOBS
from tests.unit.operator.histories.api import NAMESPACE, RESOURCES, WatchedApi, copied

FOREGROUND: Final = "foregroundDeletion"
"""Finalizer of a job that goes after its objects."""
ORPHAN: Final = "orphan"
"""Finalizer of a job that leaves its objects."""


def collect_garbage(api: WatchedApi) -> None:
    """Do what is to be done now about the objects of jobs that are deleted."""
    jobs = {job["metadata"]["uid"]: job["metadata"] for job in api.stored(DIJOBS.kind).values()}
    left = set[str]()
    for (kind, _, name), body in list(api.objects.items()):
        if kind == DIJOBS.kind or (owner := controlling_job(body)) is None:
            continue
        finalizers = jobs.get(owner["uid"], {}).get("finalizers", ())
        if ORPHAN in finalizers:
            orphan = copied(body)
            del orphan["metadata"]["ownerReferences"]
            api.put(RESOURCES[kind], NAMESPACE, orphan)
        elif owner["uid"] not in jobs or FOREGROUND in finalizers:
            left.add(owner["uid"])
            if "deletionTimestamp" not in body["metadata"]:
                api.request_deletion(kind, name)
    for uid, metadata in jobs.items():
        if metadata.get("finalizers") and uid not in left:
            api.remove(DIJOBS.kind, metadata["name"])
