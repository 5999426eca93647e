"""The scopes of quotas, and the pods that they count. Pure.

The rules are those of the API server's quota for pods (Kubernetes, "Resource Quotas", quota
scopes). What admission may still change in a pod is unknown here: a LimitRange can add requests,
and a default PriorityClass can be set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import mapping
from di_operator.allocator.model.resources import read_resources

Object = Mapping[str, Any]

TERMINATING: Final = "Terminating"
NOT_TERMINATING: Final = "NotTerminating"
NOT_BEST_EFFORT: Final = "NotBestEffort"
PRIORITY_CLASS: Final = "PriorityClass"
CROSS_NAMESPACE: Final = "CrossNamespacePodAffinity"
_OF_QOS: Final = ("cpu", "memory")
"""Resources that decide whether a pod is of the class BestEffort."""
_TERMS: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement of a quota on the pods that it counts; `values` only for In and NotIn."""

    scope: str
    operator: str = "Exists"
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodScopes:
    """The facts about a pod that the scopes of quotas ask for.

    Attributes:
        terminating: it has an `activeDeadlineSeconds`.
        requests: it has requests of CPU or memory. Without them its class of service is unknown.
        priority_class: empty if none is set, then its class is unknown.
        cross_namespace: an affinity term of it names other namespaces.
    """

    terminating: bool
    requests: bool
    priority_class: str
    cross_namespace: bool

    def meets(self, requirement: Requirement) -> bool:
        """Return whether a pod certainly meets a requirement; BestEffort is never certain."""
        scope = requirement.scope
        if scope == PRIORITY_CLASS:
            return self.priority_class != "" and _meets(self.priority_class, requirement)
        known = {
            TERMINATING: self.terminating,
            NOT_TERMINATING: not self.terminating,
            NOT_BEST_EFFORT: self.requests,
            CROSS_NAMESPACE: self.cross_namespace,
        }
        return requirement.operator == "Exists" and known.get(scope, False)


def _meets(value: str, requirement: Requirement) -> bool:
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    return requirement.operator == "Exists"


def read_requirements(quota: Object) -> tuple[Requirement, ...]:
    """Return the requirements in the `spec` of a quota; none if it counts all pods.

    Raises AttributeError, KeyError or TypeError for an invalid or an unknown selector.
    """
    selector = mapping(quota.get("scopeSelector"))
    found = (
        *(Requirement(scope=scope) for scope in quota.get("scopes") or ()),
        *(
            Requirement(
                scope=each["scopeName"],
                operator=each["operator"],
                values=frozenset(each.get("values") or ()),
            )
            for each in selector.get("matchExpressions") or ()
        ),
    )
    if not found and (quota.get("scopes") or quota.get("scopeSelector")):
        raise KeyError("matchExpressions")
    return found


def read_scopes(spec: Object, priority_class: str | None = None) -> PodScopes:
    """Return the facts of a pod's spec; `priority_class` is set if the spec names none.

    Raises ValueError for an invalid quantity.
    """
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    own = spec.get("priorityClassName")
    default = priority_class if spec.get("priority") is None else None
    return PodScopes(
        terminating=spec.get("activeDeadlineSeconds") is not None,
        requests=any(map(_has_requests, (spec, *containers))),
        priority_class=own or default or "",
        cross_namespace=any(map(_names_namespaces, _affinity_terms(spec))),
    )


def _has_requests(container: Object) -> bool:
    resources = container.get("resources") or {}
    amounts = read_resources(
        {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    )
    return any(amounts.get(name) for name in _OF_QOS)


def _affinity_terms(spec: Object) -> Iterator[Object]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for strength in _TERMS:
            for term in terms.get(strength) or ():
                yield term.get("podAffinityTerm") or term


def _names_namespaces(term: Object) -> bool:
    return bool(term.get("namespaces")) or term.get("namespaceSelector") is not None


def all_meet(pods: Iterable[PodScopes], requirements: Iterable[Requirement]) -> bool:
    """Return whether all pods certainly meet all requirements; no pod meets any."""
    pods = tuple(pods)
    return bool(pods) and all(pod.meets(each) for each in requirements for pod in pods)


def scoped(resource: str, quota: str) -> str:
    """Return the name under which a ResourceQuota with scopes bounds a resource."""
    return f"{resource}@{quota}"


def resource_of(name: str) -> str:
    """Return the resource of a bound's name."""
    # Names of resources have no "@".
    return name.partition("@")[0]
