"""The node that a pod is pinned to: the only module that writes and reads it.

A pinned pod names its node in its required node affinity, by field and not by label, as DaemonSets
do. The cluster's scheduler binds it there or nowhere, and first checks volumes, spread, taints and
free capacity. A pod with `nodeName` bypasses the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

Object = Mapping[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NAME: Final = "metadata.name"


class Binding(StrEnum):
    """The component that binds the pods of jobs that the allocator places."""

    SCHEDULER = "Scheduler"
    """The scheduler that the template names; the pods are pinned."""
    DIRECT = "Direct"
    """No scheduler: the pods are created with `nodeName`."""


def placed(spec: Object, node: str, binding: Binding) -> dict[str, Any]:
    """Return a pod's spec that is placed on a node, in place of any node it named before."""
    if binding is Binding.DIRECT:
        return {**spec, "nodeName": node}
    free = {key: value for key, value in spec.items() if key != "nodeName"}
    return free | {"affinity": _pinned(spec.get("affinity") or {}, node)}


def avoiding(spec: Object, nodes: Iterable[str]) -> dict[str, Any]:
    """Return a pod's spec that excludes the nodes, in addition to its own requirements."""
    # The API server allows one value for each of these.
    fields = [{"key": _NAME, "operator": "NotIn", "values": [node]} for node in nodes]
    if not fields:
        return {**spec}
    return {**spec, "affinity": _with_fields(spec.get("affinity") or {}, fields)}


def pin(node: str) -> dict[str, Any]:
    """Return the smallest affinity that pins a pod to a node."""
    return _pinned({}, node)


def node_of(spec: Object) -> str:
    """Return the node that a pod is bound to or pinned to; empty if there is none."""
    return spec.get("nodeName") or _pinned_to(spec)


def _pinned(affinity: Object, node: str) -> dict[str, Any]:
    return _with_fields(affinity, [{"key": _NAME, "operator": "In", "values": [node]}])


def _with_fields(affinity: Object, fields: Sequence[Object]) -> dict[str, Any]:
    """Return an affinity that requires these fields too, in each of its alternatives."""
    of_nodes = affinity.get("nodeAffinity") or {}
    terms = [
        # A term without requirements matches no node, and must not begin to match.
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
    # The terms are alternatives: the pod is pinned only if all of them name the node.
    return nodes[0] if nodes and all(node == nodes[0] for node in nodes) else ""


def _named(term: Object) -> str:
    for field in term.get("matchFields") or ():
        values = [*(field.get("values") or ())]
        if field.get("key") == _NAME and field.get("operator") == "In" and len(values) == 1:
            return str(values[0])
    return ""
