"""Check that nodes accept pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from di_api.conditions import condition_of
from di_api.field_error import mapping
from di_api.wording import listed
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, fault, unread, warning

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
_SHOWN: Final = 5


def check(facts: Facts) -> Iterator[Finding]:
    """Check the conditions of nodes."""
    if not facts.nodes.is_good:
        yield unread(facts.nodes, "nodes")
        return
    nodes = facts.nodes.found
    away = [_name(node) for node in nodes if _status(node, "Ready") != "True"]
    if away:
        severe = fault if len(away) == len(nodes) else warning
        yield severe(
            f"{len(away)} of {len(nodes)} nodes are not ready: {listed(away, _SHOWN)}",
            remedy=f"kubectl describe node {away[0]}",
        )
    for kind in _PRESSURES:
        if pressed := [
            _name(node) for node in nodes if condition_of(node, kind).get("status") == "True"
        ]:
            yield warning(
                f"{kind} on {listed(pressed, _SHOWN)}: pods are evicted there, and no new ones "
                "taken",
                remedy=f"kubectl describe node {pressed[0]}",
            )
    if nodes and all(mapping(node.get("spec")).get("unschedulable") for node in nodes):
        yield fault(
            "every node is cordoned: no pod gets one",
            remedy=f"kubectl uncordon {_name(nodes[0])}",
        )


def _name(node: Object) -> str:
    return str(mapping(node.get("metadata")).get("name") or "")


def _status(node: Object, kind: str) -> object:
    return condition_of(node, kind).get("status")
