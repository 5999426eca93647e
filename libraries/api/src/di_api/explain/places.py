"""A test whether any node fits a pod's selectors, apart from taints.

The scheduler's message has one reason for each node, the first that it finds. If that is a taint,
the message does not show whether the node would fit without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from di_api.explain.facts import Object, text_of
from di_api.field_error import items, mapping
from di_api.wording import listed

_CORDON: Final = "node.kubernetes.io/unschedulable"
_MOST: Final = 3
"""Maximum number of nodes that a text names."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def any_of_its_kind(pod: Object, nodes: Iterable[Object]) -> bool:
    """Return whether nodeSelector and required node affinity of a pod match any node."""
    spec = mapping(pod.get("spec"))
    selector = mapping(spec.get("nodeSelector"))
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get(_REQUIRED)
    terms = [mapping(term) for term in items(mapping(required).get("nodeSelectorTerms"))]
    for node in nodes:
        metadata = mapping(node.get("metadata"))
        labels = mapping(metadata.get("labels"))
        if any(labels.get(key) != value for key, value in selector.items()):
            continue
        if required is None or any(_fits(term, metadata) for term in terms):
            return True
    return False


def cordoned(pod: Object | None, nodes: Iterable[Object]) -> list[Object]:
    """Return the cordoned nodes that a pod's selectors match; all cordoned ones without a pod."""
    found = [node for node in nodes if mapping(node.get("spec")).get("unschedulable") is True]
    return [node for node in found if pod is None or any_of_its_kind(pod, [node])]


def can_take(pod: Object | None, nodes: Iterable[Object]) -> bool:
    """Return whether any node that a pod's selectors match has no taint that keeps pods away."""
    free = [
        node
        for node in nodes
        if not any(
            mapping(each).get("effect") in ("NoSchedule", "NoExecute")
            for each in items(mapping(node.get("spec")).get("taints"))
        )
    ]
    return bool(free) and (pod is None or any_of_its_kind(pod, free))


def cordoned_text(nodes: Sequence[Object]) -> str:
    """Return which nodes are cordoned, with the taint that does it."""
    names = [text_of(mapping(node.get("metadata")).get("name")) for node in nodes]
    if not names:
        return "nodes are cordoned"
    are = "is" if len(names) == 1 else "are"
    return f"{listed(names, _MOST)} {are} cordoned (taint {_CORDON}:NoSchedule)"


def _fits(term: Object, metadata: Object) -> bool:
    """Return whether all of a term holds; an empty term matches no node."""
    labels = mapping(metadata.get("labels"))
    of_labels = [mapping(each) for each in items(term.get("matchExpressions"))]
    of_fields = [mapping(each) for each in items(term.get("matchFields"))]
    if not of_labels and not of_fields:
        return False
    fields = {"metadata.name": metadata.get("name")}
    return all(_holds(each, labels) for each in of_labels) and all(
        _holds(each, fields) for each in of_fields
    )


def _holds(expression: Object, labels: Object) -> bool:
    """Return whether one requirement holds, as the API documents NodeSelectorRequirement."""
    key, values = text_of(expression.get("key")), items(expression.get("values"))
    value, operator = labels.get(key), expression.get("operator")
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and values:
        try:
            difference = int(text_of(value)) - int(text_of(values[0]))
        except ValueError:
            return False
        return difference > 0 if operator == "Gt" else difference < 0
    return operator == "Exists" and value is not None
