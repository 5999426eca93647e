"""Reads by name of objects that have no watch, with a memory of recent results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from di_api.ownership import is_controlled_by, is_of_earlier_job
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Forbidden, NotFound
from di_kube.resources import Resource
from di_operator.process.concurrency import spread
from di_operator.process.controller import Outdated

K = TypeVar("K", bound=Hashable)
L = TypeVar("L")


async def read_by_name(
    client: KubeClient, namespace: str, wanted: Iterable[tuple[K, Resource, str]]
) -> dict[K, Mapping[str, Any]]:
    """Read objects one by one; return those that exist by key. Objects that cannot be read are left
    out: the error appears when they are created.

    Raises:
        ApiError: a retry can succeed.
    """
    result: dict[K, Mapping[str, Any]] = {}
    errors = list[ApiError]()

    async def read(item: tuple[K, Resource, str]) -> bool:
        key, resource, name = item
        try:
            result[key] = await client.get(resource, name, namespace)
        except (NotFound, Forbidden):
            pass
        except ApiError as error:
            errors.append(error)
        return not errors

    await spread(list(wanted), read)
    if errors:
        raise errors[0]
    return result


async def read_existing(
    client: KubeClient, resource: Resource, name: str, namespace: str
) -> Mapping[str, Any]:
    """Return the object that prevented a create.

    Raises:
        Outdated: it is gone, so the create can be repeated.
        ApiError: a retry can succeed.
    """
    try:
        return await client.get(resource, name, namespace)
    except NotFound as error:
        raise Outdated(f"{error.target} is gone again") from error


def belongs_to(found: Mapping[str, Any], job: Mapping[str, Any], named: str) -> bool:
    """Return whether an object belongs to a job, given as an owner reference.

    Raises:
        Outdated: it belongs to an earlier job of that name, and has to be deleted first.
    """
    if is_controlled_by(found, job["uid"]):
        return True
    if is_of_earlier_job(found, name=job["name"], uid=job["uid"]):
        raise Outdated(f"{named} of an earlier job has to go first")
    return False


class RecentReads(Generic[L]):
    """The last result for each job, by UID; bounded in number, the oldest is dropped first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._reads: OrderedDict[str, L] = OrderedDict()

    def get(self, uid: str) -> L | None:
        """Return the last result for a job; None if there is none."""
        return self._reads.get(uid)

    def keep(self, uid: str, last: L) -> None:
        """Store a result."""
        self._reads[uid] = last
        self._reads.move_to_end(uid)
        if len(self._reads) > self._most:
            self._reads.popitem(last=False)

    def forget(self, uid: str) -> None:
        """Drop a result, if there is one."""
        self._reads.pop(uid, None)
