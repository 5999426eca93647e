"""Lookup of the pods at an address that the cache does not have."""

from __future__ import annotations

from di_server.access.budget import Budget
from di_server.access.grants import Grant, grants_at
from di_server.access.single_flight import SingleFlight
from di_server.deadline import Deadline
from di_server.storage.pods import PodStore


class AddressLookups:
    """Lists the pods at an address: one list at a time per address, within a common budget.

    A caller is refused only after a list, because a new pod can call before the watch has shown it,
    and treats a refusal as final. Waiting for the watch instead would hold a thread per unknown
    caller, and still refuse that pod if the watch is late; so would a cached refusal. But such a
    list makes the API server read all pods of the namespace (or all). So refusals are limited per
    address (see `AuthFailureLimiter`), and the budget is for all addresses together.
    """

    def __init__(self, *, pods: PodStore, budget: Budget) -> None:
        self._pods = pods
        self._budget = budget
        self._listing = SingleFlight[tuple[str | None, str], list[Grant]]()

    def at(self, ip: str, namespace: str | None, deadline: Deadline) -> list[Grant]:
        """Return the jobs of the pods at an address of a namespace (None: of all that are served).

        Raises:
            OverBudget: the budget is used up by other lookups.
        """

        def look() -> list[Grant]:
            if self._pods.synced:
                # Before the cache is filled all callers are unknown, and legitimate clients must
                # not wait for others.
                self._budget.take()
            return grants_at(self._pods.at(ip, namespace, deadline), ip)

        return self._listing.run((namespace, ip), look, deadline)
