"""Reads and creates the companions of jobs at the API server; they have no watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.ownership import controlling_job, is_controlled_by
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from di_kube.resources import Resource
from di_operator.cluster.uncached_reads import RecentReads, belongs_to, read_by_name, read_existing
from di_operator.lifecycle.policies.companions import Wanted, seen_of
from di_operator.lifecycle.vocabulary.actions import CreateCompanion
from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import CompanionRefused

REMEMBERED: Final = 4096
"""Number of jobs whose companions were read recently and are remembered; a few hundred
bytes each.
"""


@dataclass(slots=True, kw_only=True)
class _Read:
    """What the last read of one job's companions found."""

    at: float
    wanted: frozenset[int]
    found: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def is_whole(self, uid: str) -> bool:
        """Return whether all companions exist and belong to the job with this UID."""
        return self.found.keys() >= self.wanted and all(
            is_controlled_by(each, uid) for each in self.found.values()
        )


class Companions:
    """Reads and creates companions; remembers for a while which jobs have all of theirs."""

    def __init__(
        self, *, client: KubeClient, reread_seconds: float, monotonic: Callable[[], float]
    ) -> None:
        """`reread_seconds`: seconds after which complete companions are read again."""
        self._client = client
        self._reread_seconds = reread_seconds
        self._monotonic = monotonic
        self._reads = RecentReads[_Read](most=REMEMBERED)

    def known(self, job: Mapping[str, Any]) -> Mapping[int, Mapping[str, Any]] | None:
        """Return the companions of a job by their index in its spec, if a recent read found all;
        else None.
        """
        uid = job["metadata"]["uid"]
        last = self._reads.get(uid)
        if last is None or not last.is_whole(uid):
            return None
        return last.found if self._monotonic() - last.at < self._reread_seconds else None

    async def read(
        self, job: Mapping[str, Any], wanted: Iterable[Wanted]
    ) -> Mapping[int, Mapping[str, Any]]:
        """Read the companions of a job, one by one. Raises ApiError if a read fails."""
        namespace, uid = job["metadata"]["namespace"], job["metadata"]["uid"]
        served = [
            (each.index, each.resource, each.name) for each in wanted if each.resource is not None
        ]
        last = _Read(at=self._monotonic(), wanted=frozenset(index for index, _, _ in served))
        found = await read_by_name(self._client, namespace, served)
        last.found.update((index, seen_of(each)) for index, each in found.items())
        self._reads.keep(uid, last)
        return last.found

    async def create(self, action: CreateCompanion) -> CompanionRefused | None:
        """Create a companion; one that the job already has counts as created.

        Raises:
            Outdated: a companion of an earlier job has to be deleted first.
            ApiError: a retry can succeed.
        """
        resource = action.resource
        if resource is None:
            why = "the operator makes no objects of this kind (companions.kinds of its chart)"
            return _refused(Seen.COMPANION_KIND_MISSING, action, why)
        body = action.body
        try:
            found = await self._made_or_met(resource, action.name, body)
        except NotFound as error:
            return _refused(Seen.COMPANION_KIND_MISSING, action, error.message)
        except Invalid as error:
            return _refused(Seen.COMPANION_INVALID, action, error.message)
        except Forbidden as error:
            quota = error.is_quota
            seen = Seen.COMPANION_OVER_QUOTA if quota else Seen.COMPANION_FORBIDDEN
            return _refused(seen, action, error.message)
        return self._taken_in(action, body, found)

    async def _made_or_met(
        self, resource: Resource, name: str, body: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the new object, or the existing one with its name."""
        namespace = body["metadata"]["namespace"]
        try:
            return await self._client.create(resource, dict(body), namespace)
        except AlreadyExists:
            return await read_existing(self._client, resource, name, namespace)

    def _taken_in(
        self, action: CreateCompanion, wanted: Mapping[str, Any], found: Mapping[str, Any]
    ) -> CompanionRefused | None:
        job = controlling_job(wanted)
        assert job is not None, "whatever is created here belongs to a job"
        if belongs_to(found, job, f"{action.kind} {action.name}"):
            if (last := self._reads.get(job["uid"])) is not None:
                last.found[action.index] = seen_of(found)
            return None
        why = "exists and does not belong to this job"
        return _refused(Seen.COMPANION_NAME_TAKEN, action, why)


def _refused(seen: Seen, action: CreateCompanion, why: str) -> CompanionRefused:
    return CompanionRefused(seen=seen, message=f"{action.words}: {why}")
