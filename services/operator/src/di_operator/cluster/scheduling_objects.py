"""Reads and writes the objects of jobs that schedulers read (PodGroups, ProvisioningRequests); they
have no watch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from di_api.ownership import controlling_job
from di_api.phase import Phase
from di_kube.client import KubeClient
from di_kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from di_kube.resources import Resource
from di_operator.cluster.uncached_reads import RecentReads, belongs_to, read_by_name, read_existing
from di_operator.lifecycle.policies.scheduling_objects import NEXT_READ, object_key
from di_operator.lifecycle.vocabulary.actions import CreateSchedulingObject, PatchSchedulingObject
from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import SchedulingObjectRefused
from di_operator.process.controller import Outdated

log = structlog.get_logger(__name__)

REMEMBERED: Final = 4096
"""Number of jobs whose objects are remembered; a kilobyte each."""
_SETTINGS: Final[Mapping[str, str]] = {
    "podgroups": "scheduling.gangSchedulers",
    "poddisruptionbudgets": "scheduling.disruptionBudgets",
    "provisioningrequests": "scheduling.provisioningRequests",
    "podtemplates": "scheduling.provisioningRequests",
}
"""The value of the chart that gives the operator the right to each resource."""
_KEPT: Final = ("name", "uid", "resourceVersion", "ownerReferences", "annotations")


@dataclass(slots=True, kw_only=True)
class _Read:
    """What the last read of one job's objects found."""

    at: float
    found: dict[str, Mapping[str, Any]]


class SchedulingObjects:
    """Reads, creates and patches the objects of jobs; remembers the results for a while."""

    def __init__(
        self, *, client: KubeClient, reread_seconds: float, monotonic: Callable[[], float]
    ) -> None:
        """`reread_seconds`: seconds after which the objects of a running job are read again."""
        self._client = client
        self._reread_seconds = reread_seconds
        self._monotonic = monotonic
        self._reads = RecentReads[_Read](most=REMEMBERED)

    def known(self, job: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]] | None:
        """Return the objects of a job from a recent read, by kind and name; None if no read is
        recent enough.
        """
        last = self._reads.get(job["metadata"]["uid"])
        if last is None:
            return None
        runs = (job.get("status") or {}).get("phase") == Phase.RUNNING
        age = self._monotonic() - last.at
        return last.found if age < (self._reread_seconds if runs else NEXT_READ) else None

    async def read(
        self, job: Mapping[str, Any], wanted: Iterable[tuple[Resource, str]]
    ) -> Mapping[str, Mapping[str, Any]]:
        """Read the objects of a job, one by one. Raises ApiError if a read fails."""
        namespace, uid = job["metadata"]["namespace"], job["metadata"]["uid"]
        last = _Read(at=self._monotonic(), found={})
        by_key = ((object_key(resource, name), resource, name) for resource, name in wanted)
        found = await read_by_name(self._client, namespace, by_key)
        last.found.update((key, _seen_of(each)) for key, each in found.items())
        self._reads.keep(uid, last)
        return last.found

    async def create(self, action: CreateSchedulingObject) -> SchedulingObjectRefused | None:
        """Create an object; one that the job already has counts as created.

        Raises:
            Outdated: an object of an earlier job has to be deleted first.
            ApiError: a retry can succeed.
        """
        body = action.body
        job = controlling_job(body)
        assert job is not None, "whatever is created here belongs to a job"
        namespace = body["metadata"]["namespace"]
        try:
            found = await self._client.create(action.resource, dict(body), namespace)
        except AlreadyExists:
            return await self._met(action, job, namespace)
        except NotFound as error:
            why = f"nothing in this cluster serves it: {error.message}"
            return _refused(Seen.SCHEDULING_KIND_MISSING, action, why)
        except Forbidden as error:
            if not await self._is_served(action.resource):
                why = f"nothing in this cluster serves it; {_setting(action.resource)}"
                return _refused(Seen.SCHEDULING_KIND_MISSING, action, why)
            why = f"{error.message}; {_setting(action.resource)}"
            return _refused(Seen.SCHEDULING_OBJECT_REFUSED, action, why)
        except Invalid as error:
            return _refused(Seen.SCHEDULING_OBJECT_REFUSED, action, error.message)
        self._take_in(job["uid"], action.resource, found)
        log.debug("created", kind=action.resource.kind, object=action.name)
        return None

    async def patch(self, action: PatchSchedulingObject) -> SchedulingObjectRefused | None:
        """Patch an object.

        Raises:
            Outdated: it differs from what was read.
            ApiError: a retry can succeed.
        """
        metadata = {"uid": action.uid, "resourceVersion": action.resource_version}
        try:
            found = await self._client.patch(
                action.resource,
                action.name,
                {**action.patch, "metadata": {**action.patch.get("metadata", {}), **metadata}},
                action.namespace,
            )
        except (NotFound, Conflict) as error:
            self._reads.forget(action.owner)
            raise Outdated(str(error)) from error
        except (Invalid, Forbidden) as error:
            return _refused(Seen.SCHEDULING_OBJECT_REFUSED, action, error.message)
        self._take_in(action.owner, action.resource, found)
        log.debug("patched", kind=action.resource.kind, object=action.name)
        return None

    async def _is_served(self, resource: Resource) -> bool:
        """Return whether the API server has the resource, by its discovery: it answers that an
        object is forbidden before it knows whether the resource exists.

        Raises:
            ApiError: that cannot be known now.
        """
        group = f"apis/{resource.group}" if resource.group else "api"
        try:
            document = json.loads(await self._client.raw(f"/{group}/{resource.version}"))
        except NotFound:
            return False
        return any(each["name"] == resource.plural for each in document.get("resources") or ())

    async def _met(
        self, action: CreateSchedulingObject, job: Mapping[str, Any], namespace: str
    ) -> SchedulingObjectRefused | None:
        """Judge an existing object with the name; return the refusal that it means, if any."""
        found = await read_existing(self._client, action.resource, action.name, namespace)
        if belongs_to(found, job, f"{action.resource.kind} {action.name}"):
            self._take_in(job["uid"], action.resource, found)
            return None
        why = "exists and does not belong to this job"
        return _refused(Seen.SCHEDULING_OBJECT_REFUSED, action, why)

    def _take_in(self, uid: str, resource: Resource, found: Mapping[str, Any]) -> None:
        if (last := self._reads.get(uid)) is not None:
            last.found[object_key(resource, found["metadata"]["name"])] = _seen_of(found)


def _seen_of(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parts of an object that are kept: identity, owner, spec fields and status."""
    metadata = found["metadata"]
    return {
        "metadata": {key: metadata[key] for key in _KEPT if key in metadata},
        **{key: found[key] for key in ("spec", "status") if key in found},
    }


def _setting(resource: Resource) -> str:
    return f"the value {_SETTINGS[resource.plural]} of the chart gives it the right"


def _refused(
    seen: Seen, action: CreateSchedulingObject | PatchSchedulingObject, why: str
) -> SchedulingObjectRefused:
    which = f"{action.resource.kind} ({action.resource.api_version}) {action.name}"
    return SchedulingObjectRefused(seen=seen, message=f"{which}: {why}")
