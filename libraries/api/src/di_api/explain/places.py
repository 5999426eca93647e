"""A test whether any node fits a pod's selectors, apart from taints.

The scheduler's message has one reason for each node, the first that it finds. If that is a taint,
the message does not show whether the node would fit without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from di_api.explain.facts import Object
from di_api.explain.job import text_of
from di_api.field_error import items, mapping

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
