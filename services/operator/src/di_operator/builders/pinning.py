"""The node that a pod is meant for: how its spec says it, written and read here alone.

A pinned pod names its node in its required node affinity, by the field and not by a label, as
DaemonSets do: the cluster's scheduler binds it there or nowhere, and looks at volumes, spread,
taints and room before it does. A pod with `nodeName` passes the scheduler by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

Object = Mapping[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NAME: Final = "metadata.name"


class Binding(StrEnum):
    """Who binds the pods of jobs that the allocator places."""

    SCHEDULER = "Scheduler"
    """The scheduler that the template names; the pods are pinned."""
    DIRECT = "Direct"
    """Nobody: the pods are made with `nodeName`, and no scheduler looks at them."""


def placed(spec: Object, node: str, binding: Binding) -> dict[str, Any]:
    """Return a pod's spec that is meant for a node, whatever node it named before."""
    if binding is Binding.DIRECT:
        return {**spec, "nodeName": node}
    free = {key: value for key, value in spec.items() if key != "nodeName"}
    return free | {"affinity": _pinned(spec.get("affinity") or {}, node)}


def avoiding(spec: Object, nodes: Iterable[str]) -> dict[str, Any]:
    """Return a pod's spec that may run on none of the nodes, whatever else it asks for."""
    # The API server takes one value each.
    fields = [{"key": _NAME, "operator": "NotIn", "values": [node]} for node in nodes]
    if not fields:
        return {**spec}
    return {**spec, "affinity": _with_fields(spec.get("affinity") or {}, fields)}


def pin(node: str) -> dict[str, Any]:
    """The least affinity that pins a pod to a node."""
    return _pinned({}, node)


def node_of(spec: Object) -> str:
    """The node that a pod is bound to or, unbound, the only one it may be bound to; else empty."""
    return spec.get("nodeName") or _pinned_to(spec)


def _pinned(affinity: Object, node: str) -> dict[str, Any]:
    return _with_fields(affinity, [{"key": _NAME, "operator": "In", "values": [node]}])


def _with_fields(affinity: Object, fields: Sequence[Object]) -> dict[str, Any]:
    """An affinity that asks for these fields too, in each of its alternatives."""
    of_nodes = affinity.get("nodeAffinity") or {}
    terms = [
        # One that asks for nothing matches no node, and must not come to match any.
        {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
        if any(term.values())
        else term
        for term in (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    ]
    required = {"nodeSelectorTerms": terms or [{"matchFields": fields}]}
    return {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: required}}


def _pinned_to(spec: Object) -> str:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    nodes = [_named(term) for term in terms if any(term.values())]
    # The terms are alternatives: all of them have to name it.
    return nodes[0] if nodes and all(node == nodes[0] for node in nodes) else ""


def _named(term: Object) -> str:
    for field in term.get("matchFields") or ():
        values = [*(field.get("values") or ())]
        if field.get("key") == _NAME and field.get("operator") == "In" and len(values) == 1:
            return str(values[0])
    return ""
