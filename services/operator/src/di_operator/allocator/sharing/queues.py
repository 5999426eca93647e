"""Settings of an administrator for namespaces: weight, guarantee and quota. Pure.

They are one mapping by namespace, an argument of the policy. A quota bounds what a namespace has.
A guarantee is what it gets back from others whenever it wants it. A weight is its part of the
rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from di_operator.allocator.model.job import Account
from di_operator.allocator.model.resources import Resources, read_resources

MOST: Final = 256
"""Maximum number of namespaces that can be named; each has its own series in the metrics."""
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_KEYS: Final = ("weight", "guarantee", "quota")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The settings of one namespace; a resource that is not named is not bounded."""

    weight: float | None = None
    """None: the default weight."""
    guarantee: Resources = field(default_factory=dict)
    quota: Resources = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queues:
    """Settings by namespace."""

    by_namespace: Mapping[str, Queue]

    def __bool__(self) -> bool:
        return bool(self.by_namespace)

    def account(self, namespace: str, taken: Resources) -> Account | None:
        """Return the bounds on the jobs of a namespace; None: there are none."""
        queue = self.by_namespace.get(namespace)
        if queue is None or not (queue.guarantee or queue.quota):
            return None
        return Account(guarantee=queue.guarantee, quota=queue.quota, taken=taken)

    @property
    def weights(self) -> dict[str, float]:
        """Return the weights of the namespaces that have one."""
        return {
            name: queue.weight
            for name, queue in self.by_namespace.items()
            if queue.weight is not None
        }

    @property
    def divide(self) -> bool:
        """Return whether capacity is divided: there is a weight or a guarantee."""
        return any(queue.weight or queue.guarantee for queue in self.by_namespace.values())


NO_QUEUES: Final = Queues({})


def queues_of(policy: object) -> Queues:
    """Return the queues of a policy: its attribute `queues`, if it has one."""
    found = getattr(policy, "queues", None)
    return found if isinstance(found, Queues) else NO_QUEUES


def read_queues(given: Mapping[str, Any] | None) -> Queues:
    """Read a policy's argument.

    Raises ValueError, with place and reason, for an invalid one.
    """
    if given is None:
        return NO_QUEUES
    if not isinstance(given, Mapping):
        raise ValueError(f"queues: {given!r}: must map namespaces to their settings")
    if len(given) > MOST:
        raise ValueError(f"queues: {len(given)} namespaces: there may be {MOST} at most")
    return Queues({name: _read(f"queues: {name}", name, queue) for name, queue in given.items()})


def _read(where: str, name: str, given: Any) -> Queue:
    if not _NAMESPACE.fullmatch(name):
        raise ValueError(f"{where}: must be the name of a namespace")
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{where}: {given!r}: must have some of {', '.join(_KEYS)}")
    for key in given:
        if key not in _KEYS:
            raise ValueError(f"{where}: {key}: there is no such key; there are {', '.join(_KEYS)}")
    weight = given.get("weight")
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if weight is not None and not (is_number and isfinite(weight) and weight > 0):
        raise ValueError(f"{where}: weight: {weight!r}: must be a number above 0")
    guarantee, quota = (_amounts(f"{where}: {key}", given.get(key)) for key in _KEYS[1:])
    for resource, amount in guarantee.items():
        if amount > quota.get(resource, amount):
            raise ValueError(f"{where}: guarantee: {resource}: is more than the quota")
    return Queue(weight=weight, guarantee=guarantee, quota=quota)


def _amounts(where: str, given: Any) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{where}: {given!r}: must map resources to amounts")
    found = {}
    for resource, quantity in given.items():
        if isinstance(quantity, bool) or quantity is None:
            raise ValueError(f"{where}: {resource}: {quantity!r}: must be a quantity")
        try:
            amount = read_resources({resource: quantity})[resource]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {resource}: {quantity!r}: must be a quantity") from error
        if str(quantity).lstrip().startswith("-"):
            raise ValueError(f"{where}: {resource}: {quantity!r}: must not be negative")
        found[resource] = amount
    return found
