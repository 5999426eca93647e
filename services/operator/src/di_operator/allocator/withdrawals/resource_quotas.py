"""ResourceQuotas of namespaces, checked before a grant. Pure; raw dicts in.

The API server refuses pods beyond a quota. So the rest of a quota bounds the grants to jobs of its
namespace, as the allocator's own quotas do. A quota with scopes bounds the jobs whose pods it
certainly counts. A quota that cannot be read bounds nothing here: the refused grant is withdrawn.
The same applies to quotas of limits, and to requests that a LimitRange adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.field_error import mapping
from di_operator.allocator.model.job import Account, TaskInfo
from di_operator.allocator.model.pod_scopes import Requirement, all_meet, read_requirements, scoped
from di_operator.allocator.model.resources import PODS, Resources, read_resources

Object = Mapping[str, Any]

_REQUESTS: Final = "requests."
_OWN_NAMES: Final = ("cpu", "memory", "ephemeral-storage", PODS)
"""Resources that a quota also counts under their own names."""
_NUMBER_OF_PODS: Final = "count/pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The bound of one quota on one resource of the pods that it counts, and the used amount."""

    quota: str
    resource: str
    hard: int
    used: int
    pods: tuple[Requirement, ...] = ()
    """Requirements on a pod that it counts; none: it counts all."""

    @property
    def name(self) -> str:
        """Return its key in `Account.quota`."""
        return scoped(self.resource, self.quota) if self.pods else self.resource


class ResourceQuotas:
    """The quotas of all namespaces, as last seen."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, tuple[Bound, ...]]] = {}

    def put(self, quota: Object) -> None:
        """Store a quota as it is now; invalid fields bound nothing."""
        metadata = quota["metadata"]
        found = self._by_namespace.setdefault(metadata["namespace"], {})
        found[metadata["uid"]] = tuple(read_bounds(quota))

    def remove(self, quota: Object) -> None:
        """Record the deletion of a quota."""
        metadata = quota["metadata"]
        found = self._by_namespace.get(metadata["namespace"], {})
        found.pop(metadata["uid"], None)
        if not found:
            self._by_namespace.pop(metadata["namespace"], None)

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces that have any."""
        return frozenset(self._by_namespace)

    def counted(self, namespace: str, task: TaskInfo) -> TaskInfo:
        """Return a task of a namespace with what quotas with scopes count of its replicas."""
        amounts = {
            bound.name: amount
            for bound in self._bounds(namespace)
            if bound.pods
            and (amount := task.resources.get(bound.resource))
            and all_meet(task.scopes, bound.pods)
        }
        return replace(task, scoped=amounts) if amounts else task

    def _bounds(self, namespace: str) -> list[Bound]:
        found = self._by_namespace.get(namespace, {})
        return [bound for bounds in found.values() for bound in bounds]

    def account(
        self, namespace: str, base: Account | None, *, own: Resources, held: Resources
    ) -> Account | None:
        """Return the bounds on the jobs of a namespace; None: there are none.

        Args:
            namespace: their namespace.
            base: their other bounds. For each resource the tighter bound holds.
            own: what quotas count of the allocator's pods.
            held: what is granted to jobs of the namespace. No quota takes that away: their
                pods exist, or are refused, which ends the grant.
        """
        if not (bounds := self._bounds(namespace)):
            return base
        account = base or Account()
        quota, taken = dict(account.quota), dict(account.taken)
        names = dict(account.names)
        for bound in sorted(bounds, key=lambda bound: (bound.resource, bound.quota)):
            resource = bound.name
            besides = max(0, bound.used - own.get(resource, 0))
            most = max(bound.hard, besides + held.get(resource, 0))
            if resource in quota and quota[resource] - taken.get(resource, 0) <= most - besides:
                continue
            quota[resource], taken[resource] = most, besides
            names[resource] = bound.quota
        return replace(account, quota=quota, taken=taken, names=names)


def read_bounds(quota: Object) -> Iterator[Bound]:
    """Yield the bounds that a quota sets on requests and the number of pods."""
    spec, status = mapping(quota.get("spec")), mapping(quota.get("status"))
    try:
        pods = read_requirements(spec)
    except (AttributeError, KeyError, TypeError):
        return
    used = mapping(status.get("used"))
    # The status is what the API server enforces; a quota that was just created has none.
    for key, hard in (mapping(status.get("hard")) or mapping(spec.get("hard"))).items():
        if (resource := _resource_of(key)) is None:
            continue
        try:
            most = read_resources({resource: hard})[resource]
            present = read_resources({resource: used.get(key, "0")})[resource]
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        yield Bound(
            quota=str(quota["metadata"]["name"]),
            resource=resource,
            hard=most,
            used=present,
            pods=pods,
        )


def _resource_of(key: str) -> str | None:
    if key.startswith(_REQUESTS):
        return key.removeprefix(_REQUESTS)
    if key == _NUMBER_OF_PODS:
        return PODS
    return key if key in _OWN_NAMES else None
