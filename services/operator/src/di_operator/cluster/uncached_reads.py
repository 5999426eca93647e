"""Objects of jobs that nobody watches: read by name, and remembered for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from di_kube.client import KubeClient
from di_kube.errors import ApiError, Forbidden, NotFound
from di_kube.resources import Resource
from di_operator.process.concurrency import spread

K = TypeVar("K", bound=Hashable)
L = TypeVar("L")


async def read_by_name(
    client: KubeClient, namespace: str, wanted: Iterable[tuple[K, Resource, str]]
) -> dict[K, Mapping[str, Any]]:
    """Read objects one by one, each under its key; those that cannot be had are left out: what is
    wrong with them or their kind, their create says.

    Raises:
        ApiError: that is not possible now.
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


class Looks(Generic[L]):
    """What was seen of each job, by its UID, of so many jobs; the oldest are forgotten first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._looks: OrderedDict[str, L] = OrderedDict()

    def get(self, uid: str) -> L | None:
        """The last look at a job, if it is remembered."""
        return self._looks.get(uid)

    def keep(self, uid: str, look: L) -> None:
        """Remember a look."""
        self._looks[uid] = look
        self._looks.move_to_end(uid)
        if len(self._looks) > self._most:
            self._looks.popitem(last=False)

    def forget(self, uid: str) -> None:
        """Forget a look, if there is one."""
        self._looks.pop(uid, None)
