"""Whose an address is, where memory does not say so."""

from __future__ import annotations

from typing import Final

from di_server.deadline import Clock, Deadline
from di_server.services.budget import Budget
from di_server.services.grants import Grant, grants_at
from di_server.services.sharing import Recent, SingleFlight
from di_server.storage.pods import PodStore

_SECONDS: Final = 1.0
_MOST: Final = 4096
_Key = tuple[str | None, str]


class Lookups:
    """Lists the pods at an address: each address once a second at most, and all within a budget.

    A refusal needs one, as a pod that has only just started may ask before the watch has shown
    it, and takes a refusal for final. Waiting for the watch instead would hold a thread for each
    stranger, and still refuse that pod whenever the watch is late. Such a list makes the API
    server walk over all pods of the namespace (or all), so nobody may cause them at will.
    """

    def __init__(self, *, pods: PodStore, budget: Budget, clock: Clock) -> None:
        self._pods = pods
        self._budget = budget
        self._recent = Recent[_Key, list[Grant]](seconds=_SECONDS, most=_MOST, clock=clock)
        self._asking = SingleFlight[_Key, list[Grant]]()

    def at(self, ip: str, namespace: str | None, deadline: Deadline) -> list[Grant]:
        """The jobs of the pods at an address of a namespace (None: of all that are served).

        Raises:
            OverBudget: others have to be looked up first.
        """
        key = (namespace, ip)
        return self._asking.run(key, lambda: self._list(key, deadline), deadline)

    def _list(self, key: _Key, deadline: Deadline) -> list[Grant]:
        found = self._recent.get(key)
        if found is not None:
            return found
        namespace, ip = key
        if self._pods.in_sight:
            # Until then nobody is known, and those who are must not wait for those who are not.
            self._budget.take()
        found = grants_at(self._pods.at(ip, namespace, deadline), ip)
        self._recent.put(key, found)
        return found
