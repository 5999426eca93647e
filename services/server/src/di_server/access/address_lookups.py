"""Whose an address is, where the cache does not say so."""

from __future__ import annotations

from di_server.access.budget import Budget
from di_server.access.grants import Grant, grants_at
from di_server.access.single_flight import SingleFlight
from di_server.deadline import Deadline
from di_server.storage.pods import PodStore


class AddressLookups:
    """Lists the pods at an address: one list at a time for an address, all within a budget.

    A refusal needs one, as a pod that has only just started may ask before the watch has shown
    it, and takes a refusal for final. Waiting for the watch instead would hold a thread for each
    unknown caller, and still refuse that pod whenever the watch is late; so would a refusal that is
    remembered. But such a list makes the API server walk over all pods of the namespace (or all),
    so nobody may cause them at will: one address is refused only so often (see
    `AuthFailureLimiter`), and the budget is for all addresses together.
    """

    def __init__(self, *, pods: PodStore, budget: Budget) -> None:
        self._pods = pods
        self._budget = budget
        self._listing = SingleFlight[tuple[str | None, str], list[Grant]]()

    def at(self, ip: str, namespace: str | None, deadline: Deadline) -> list[Grant]:
        """The jobs of the pods at an address of a namespace (None: of all that are served).

        Raises:
            OverBudget: others have to be looked up first.
        """

        def look() -> list[Grant]:
            if self._pods.synced:
                # Before that all callers are unknown, and good clients must not wait for bad ones.
                self._budget.take()
            return grants_at(self._pods.at(ip, namespace, deadline), ip)

        return self._listing.run((namespace, ip), look, deadline)
