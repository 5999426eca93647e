"""Keeps new pods away from suspect nodes by a taint, for as long as the nodes are suspect.

Off by default. A node is suspect while at least two jobs avoid it, and a job avoids a node for an
hour. So a taint that no later failure renews is removed after that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from di_api.field_error import items, mapping
from di_api.names import GROUP, OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Conflict, NotFound
from di_kube.resources import NODES
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

TAINT: Final = f"{GROUP}/suspect"
"""Key of the taint, with the effect NoSchedule: running pods stay."""
PERIOD: Final = 15.0
"""Seconds between two comparisons of the nodes with the suspects."""
_SELECTED: Final = ("name", "resourceVersion")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintChange:
    """The taints of a node that is to get or to lose ours."""

    node: str
    resource_version: str
    taints: tuple[Mapping[str, Any], ...]
    is_added: bool

    @property
    def body(self) -> dict[str, Any]:
        """Return the merge patch, which fails if the node has changed since it was read."""
        return {
            "metadata": {"resourceVersion": self.resource_version},
            "spec": {"taints": [*self.taints] or None},
        }


def taint_changes(
    nodes: Iterable[Mapping[str, Any]], suspects: Mapping[str, int], most_percent: int
) -> Iterator[TaintChange]:
    """Yield the changes that leave the taint on the suspect nodes, up to a share of all nodes.

    A tainted node keeps its taint before another one gets it. Then the nodes that most jobs avoid
    come first.

    Args:
        nodes: all nodes of the cluster, as the API server returns them.
        suspects: number of jobs that avoid a node, by its name.
        most_percent: largest share of the nodes with the taint, rounded down to whole nodes.
    """
    found = {str(node["metadata"]["name"]): node for node in nodes}
    tainted = {name for name, node in found.items() if any(map(_is_ours, _taints(node)))}
    most = len(found) * most_percent // 100
    order = sorted(found.keys() & suspects, key=lambda n: (n not in tainted, -suspects[n], n))
    wanted = frozenset(order[:most])
    for name in sorted(tainted ^ wanted):
        others = [taint for taint in _taints(found[name]) if not _is_ours(taint)]
        ours = [{"key": TAINT, "effect": "NoSchedule"}] if name in wanted else []
        yield TaintChange(
            node=name,
            resource_version=str(found[name]["metadata"]["resourceVersion"]),
            taints=(*others, *ours),
            is_added=name in wanted,
        )


class SuspectTaints:
    """Keeps the taints; only the leader runs it.

    Needs: nodes list and patch.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        suspects: Callable[[], Mapping[str, int]],
        most_percent: int,
        clock: Clock,
    ) -> None:
        self._client = client
        self._suspects = suspects
        self._most_percent = most_percent
        self._clock = clock

    async def run(self) -> None:
        """Compare the nodes with the suspects until cancelled, also after errors."""
        said = ""
        while True:
            message = ""
            try:
                await self._step()
            except ApiError as error:
                message = f"taints of suspect nodes not updated: {error}"
            if message and message != said:
                log.warning(message)
            said = message
            await self._clock.sleep(PERIOD)

    async def _step(self) -> None:
        nodes, _ = await self._client.list(NODES, transform=_needed)
        for change in taint_changes(nodes, self._suspects(), self._most_percent):
            try:
                await self._client.patch(
                    NODES, change.node, change.body, field_manager=OPERATOR_NAME
                )
            except (Conflict, NotFound):
                # The next comparison reads the node as it is by then.
                continue
            log.info("node tainted" if change.is_added else "taint removed", node=change.node)


def _needed(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parts of a node that a comparison reads."""
    metadata = {key: node["metadata"][key] for key in _SELECTED}
    return {"metadata": metadata, "spec": {"taints": _taints(node)}}


def _taints(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(each) for each in items(mapping(node.get("spec")).get("taints"))]


def _is_ours(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == TAINT
