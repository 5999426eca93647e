"""A node as the allocator sees it, and which pods it admits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from di_operator.allocator.resources import Resources

Items: TypeAlias = tuple[tuple[str, str], ...]
"""A mapping of strings that can be hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A reason not to run here, for pods that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """A node's room. `total` is allocatable, `free` is less what pods that are not ours request."""

    name: str
    total: Resources
    free: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kind: str = ""
    """Jobs run equally fast on nodes of one kind; empty where it is not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Taints a pod puts up with; empty `key` with Exists: all, empty `effect`: any effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether the taint does not keep the pod away (core/v1 Toleration)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.key == taint.key and self.value == taint.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One condition on a label (core/v1 NodeSelectorRequirement)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it; an operator that is not known never does."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists" | "DoesNotExist":
                return (value is None) == (self.operator == "DoesNotExist")
            case "Gt" | "Lt":
                return self._compares(value or "")
            case _:
                return False

    def _compares(self, value: str) -> bool:
        try:
            number, bound = int(value), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Where a pod may run: all of the selector, one of the terms, no taint it cannot tolerate, not
    where it is barred.

    `terms` are the required node affinity: alternatives, each a conjunction. No terms at all
    admit every node. `kind` is none of the pod's own: where the policy wants all replicas on nodes
    of one kind; None: any.
    """

    selector: Items = ()
    terms: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    kind: str | None = None
    barred: frozenset[str] = frozenset()
    """Names of nodes that are not to be tried now."""

    def admit(self, node: NodeInfo) -> bool:
        """Whether the pod may run on the node, room aside."""
        if node.name in self.barred or self.kind not in (None, node.kind):
            return False
        if any(node.labels.get(key) != value for key, value in self.selector):
            return False
        if self.terms and not any(
            term and all(expression.holds(node.labels) for expression in term)
            for term in self.terms
        ):
            return False
        return all(
            any(toleration.tolerates(taint) for toleration in self.tolerations)
            for taint in node.taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )


def read_constraints(pod_spec: Mapping[str, Any]) -> Constraints:
    """Return the constraints a pod's spec states; preferences are not constraints."""
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return Constraints(
        selector=tuple(sorted((pod_spec.get("nodeSelector") or {}).items())),
        terms=tuple(_term(term) for term in required.get("nodeSelectorTerms") or ()),
        tolerations=tuple(
            Toleration(
                key=found.get("key") or "",
                operator=found.get("operator") or "Equal",
                value=found.get("value") or "",
                effect=found.get("effect") or "",
            )
            for found in pod_spec.get("tolerations") or ()
        ),
    )


def _term(term: Mapping[str, Any]) -> tuple[Expression, ...]:
    expressions = [
        Expression(
            key=found["key"], operator=found["operator"], values=tuple(found.get("values") or ())
        )
        for found in term.get("matchExpressions") or ()
    ]
    # metadata.name is the only field the API server allows in matchFields.
    expressions += [
        Expression(
            key="metadata.name",
            operator=found["operator"],
            values=tuple(found.get("values") or ()),
        )
        for found in term.get("matchFields") or ()
    ]
    return tuple(expressions)
