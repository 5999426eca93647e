"""A node as the allocator sees it, and which pods it admits."""

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
"""Labels of a node selector, expressions of a node affinity, and tolerations of a pod."""
MOST_LABELS: Final = 32
"""Different labels that a node affinity asks for."""
MOST_REMEMBERED: Final = 65_536
"""Values of labels that are remembered of one affinity, with whether it admits them."""
MOST_SHARED: Final = 128
"""Affinities that are remembered, the last ones read."""


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
    values: frozenset[str] = frozenset()

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
            # Of these operators there is one value; of more, which the API server refuses, any.
            number, bound = int(value), int(min(self.values, default=""))
        except (TypeError, ValueError):
            return False
        return number > bound if self.operator == "Gt" else number < bound


Alternatives: TypeAlias = frozenset[tuple[Expression, ...]]


class Terms:
    """Required node affinity: alternatives, each a conjunction. None at all admit every node.

    What holds for one node holds for all that have the same values under the labels that are
    asked for. So each such set of values is judged once, in whichever round it is met first.
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
        """Whether one of the alternatives holds."""
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
    """Where a pod may run: all of the selector, one of the terms, no taint it cannot tolerate, not
    where it is barred.

    `kind` is none of the pod's own: where the policy wants all replicas on nodes of one kind; None:
    any.
    """

    selector: Items = ()
    terms: Terms = NO_TERMS
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
        if not self.terms.admit(node.labels):
            return False
        return all(
            any(toleration.tolerates(taint) for toleration in self.tolerations)
            for taint in node.taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )


def read_constraints(pod_spec: Mapping[str, Any]) -> Constraints:
    """Return the constraints a pod's spec states; preferences are not constraints.

    Raises:
        ValueError: it states more than nodes can be compared with in each round: more tolerations
            than MOST_CONDITIONS, or terms of more expressions or of more different labels, those
            that only name values of one label taken together.
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
            # One alternative or the other: the same as one with the values of both.
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
    """The same for all templates that ask for the same: a job is read again at each change."""
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
