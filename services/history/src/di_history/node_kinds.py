"""The values of the price label of nodes, remembered after a node is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from di_api.field_error import mapping
from di_history.records import Placement
from di_kube.cache import DELETED

_MOST: Final = 20_000
_LONGEST: Final = 63
"""Maximum length of a label value."""
Object = Mapping[str, Any]


class NodeKinds:
    """The value of one label by the node's name; the oldest of many are forgotten.

    Args:
        label: its key; empty: no values are known.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._by_node: dict[str, str] = {}

    def trimmed(self, node: Object) -> dict[str, Any]:
        """Return only the fields of a node that are read here."""
        metadata = mapping(node.get("metadata"))
        kept = {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata}
        value = mapping(metadata.get("labels")).get(self._label)
        labels = {} if value is None else {self._label: value}
        return {"metadata": {**kept, "labels": labels}}

    def on_node(self, change: str, node: Object) -> None:
        """Remember the value of a node; a deleted one keeps its last value."""
        metadata = mapping(node.get("metadata"))
        value = mapping(metadata.get("labels")).get(self._label)
        if change != DELETED and isinstance(value, str):
            self.remember(str(metadata.get("name") or ""), value)

    def remember(self, node: str, value: str) -> None:
        """Remember a value; an empty one is not known."""
        if not self._label or not value:
            return
        self._by_node.pop(node, None)
        self._by_node[node] = value[:_LONGEST]
        if len(self._by_node) > _MOST:
            del self._by_node[next(iter(self._by_node))]

    def added(self, placements: Iterable[Placement]) -> list[Placement]:
        """Return the placements with the values of their nodes."""
        return [replace(each, kind=self._by_node.get(each.node, "")) for each in placements]
