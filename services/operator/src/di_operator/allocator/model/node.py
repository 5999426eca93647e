"""A node as policies see it, and the pods that it admits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from typing_extensions import override

from di_operator.allocator.model.resources import Resources

Items: TypeAlias = tuple[tuple[str, str], ...]
"""A mapping of strings that can be hashed."""

MOST_CONDITIONS: Final = 256
"""Maximum number of labels of a node selector, expressions of a node affinity, and tolerations of
a pod.
"""
MOST_LABELS: Final = 32
"""Maximum number of different labels in a node affinity."""
MOST_REMEMBERED: Final = 65_536
"""Number of label values for which the result of one affinity is cached."""
MOST_SHARED: Final = 128
"""Number of affinities that are cached, the last ones read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node: pods that do not tolerate it do not run there."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """A node's capacity. `total` is allocatable, `free` is without the pods of other owners."""

    name: str
    total: Resources
    free: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kind: str = ""
    """Jobs run equally fast on nodes of one kind; empty: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of taints. An empty `key` with Exists is for all, an empty `effect` for any
    effect.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration matches the taint (core/v1 Toleration)."""
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
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet the condition; an unknown operator never does."""
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
            # These operators have one value; the API server refuses more.
            number, bound = int(value), int(min(self.values, default=""))
        except (TypeError, ValueError):
            return False
        return number > bound if self.operator == "Gt" else number < bound


Alternatives: TypeAlias = frozenset[tuple[Expression, ...]]


class Terms:
    """Required node affinity: alternatives, each a conjunction. None at all admit every node.

    Nodes with the same values of the requested labels have the same result, which is cached.
    """

    __slots__ = ("_alternatives", "_hash", "_keys", "_seen")

    def __init__(self, alternatives: Alternatives = frozenset()) -> None:
        self._alternatives = alternatives
        self._hash = hash(alternatives)
        self._keys = tuple(sorted({each.key for term in alternatives for each in term}))
        self._seen: dict[tuple[str | None, ...], bool] = {}

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Terms):
            return NotImplemented
        return self is other or self._alternatives == other._alternatives

    def __bool__(self) -> bool:
        return bool(self._alternatives)

    def admit(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels meet one of the alternatives."""
        if not self._alternatives:
            return True
        shape = tuple([labels.get(key) for key in self._keys])
        found = self._seen.get(shape)
        if found is None:
            if len(self._seen) * (len(self._keys) + 1) > MOST_REMEMBERED:
                self._seen.clear()
            found = self._seen[shape] = any(
                term and all(expression.holds(labels) for expression in term)
                for term in self._alternatives
            )
        return found


NO_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """The nodes on which a pod can run: all of the selector, one of the terms, no untolerated
    taint.

    `kind` does not come from the pod: the policy wants all replicas on nodes of one kind; None:
    any.
    """

    selector: Items = ()
    terms: Terms = NO_TERMS
    tolerations: tuple[Toleration, ...] = ()
    kind: str | None = None
    barred: frozenset[str] = frozenset()
    """Names of nodes that are not tried at present."""

    def admit(self, node: NodeInfo) -> bool:
        """Return whether the pod can run on the node, free capacity aside."""
        if node.name in self.barred or self.kind not in (None, node.kind):
            return False
        if any(node.labels.get(key) != value for key, value in self.selector):
            return False
        if not self.terms.admit(node.labels):
            return False
        return all(
            any(toleration.tolerates(taint) for toleration in self.tolerations)
            for taint in node.taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )


def read_constraints(pod_spec: Mapping[str, Any]) -> Constraints:
    """Return the constraints in a pod's spec; preferences are not constraints.

    Raises:
        ValueError: it has too much to compare with all nodes in each round. These are more
            tolerations than MOST_CONDITIONS, or terms with more expressions or more different
            labels. Terms that only name values of one label count together.
    """
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    selector, tolerations = pod_spec.get("nodeSelector") or {}, pod_spec.get("tolerations") or ()
    _check("node selector", len(selector), "labels", MOST_CONDITIONS)
    _check("tolerations", len(tolerations), "entries", MOST_CONDITIONS)
    return Constraints(
        selector=tuple(sorted(selector.items())),
        terms=_read_terms(required.get("nodeSelectorTerms") or ()),
        tolerations=tuple(
            Toleration(
                key=found.get("key") or "",
                operator=found.get("operator") or "Equal",
                value=found.get("value") or "",
                effect=found.get("effect") or "",
            )
            for found in tolerations
        ),
    )


def _read_terms(terms: Iterable[Mapping[str, Any]]) -> Terms:
    values: dict[str, set[str]] = {}
    others: set[tuple[Expression, ...]] = set()
    for term in map(_term, terms):
        if len(term) == 1 and term[0].operator == "In":
            # Alternatives on one label are the same as one with the values of all.
            values.setdefault(term[0].key, set()).update(term[0].values)
        else:
            others.add(term)
    merged = {
        (Expression(key=key, operator="In", values=frozenset(found)),)
        for key, found in values.items()
    }
    alternatives = frozenset(merged | others)
    expressions = [expression for term in alternatives for expression in term]
    _check("node affinity", len(expressions), "expressions", MOST_CONDITIONS)
    _check("node affinity", len({each.key for each in expressions}), "labels", MOST_LABELS)
    return _shared(alternatives) if alternatives else NO_TERMS


def _check(what: str, number: int, of: str, most: int) -> None:
    if number > most:
        raise ValueError(f"its {what}: {number} {of}, more than {most}")


@lru_cache(maxsize=MOST_SHARED)
def _shared(alternatives: Alternatives) -> Terms:
    """Return one shared object for equal terms: a job is read again at each change."""
    return Terms(alternatives)


def _term(term: Mapping[str, Any]) -> tuple[Expression, ...]:
    # metadata.name is the only field the API server allows in matchFields.
    return (
        *(_expression(found, found["key"]) for found in term.get("matchExpressions") or ()),
        *(_expression(found, "metadata.name") for found in term.get("matchFields") or ()),
    )


def _expression(found: Mapping[str, Any], key: str) -> Expression:
    values = frozenset(found.get("values") or ())
    return Expression(key=key, operator=found["operator"], values=values)
