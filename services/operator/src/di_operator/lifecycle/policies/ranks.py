"""Global ranks: the assignment to pods, and the lists by which pods find each other.

A pod keeps its rank for life, in an annotation. A new pod takes the lowest rank that no pod of the
job holds. A pod that is being deleted still holds its rank: otherwise two running pods could have
the same one. The exception is a lost pod in a task with standby pods: the promoted pod takes its
rank at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count

from di_api.names import NODE_HOLE, pod_fqdn
from di_operator.builders.nodes import NodeLists
from di_operator.lifecycle.observed.snapshot import Snapshot


def assign_ranks(snapshot: Snapshot) -> dict[str, int]:
    """Return the rank of every slot by pod name, in the order of the slots.

    Slots that cannot be filled yet get a rank too, so that pods which start first already know the
    addresses of the others.
    """
    replaced = _replaced(snapshot)
    holders = chain(snapshot.held.values(), snapshot.surplus, snapshot.leaving)
    taken = {pod.rank for pod in holders if pod.rank is not None and pod.uid not in replaced}
    free = _free(taken)
    ranks: dict[str, int] = {}
    for slot in snapshot.slots:
        pod = snapshot.held.get(slot.name)
        ranks[slot.name] = pod.rank if pod is not None and pod.rank is not None else next(free)
    return ranks


def ranked_nodes(snapshot: Snapshot, service_domain: str) -> tuple[dict[str, int], NodeLists]:
    """Return the rank of every slot by pod name, and the addresses of the pods."""
    ranks = assign_ranks(snapshot)
    return ranks, node_lists(snapshot, ranks, service_domain)


def node_lists(snapshot: Snapshot, ranks: Mapping[str, int], service_domain: str) -> NodeLists:
    """Return the FQDNs by rank and by task.

    A name that would not resolve is replaced by ``localhost``: for an unused rank, and for a pod
    that has succeeded (cluster DNS drops it, and no pod of that name follows).
    """
    by_rank = [NODE_HOLE] * (max(ranks.values(), default=-1) + 1)
    by_task: dict[str, list[str]] = {}
    for slot in snapshot.slots:
        fqdn = pod_fqdn(slot.name, snapshot.name, snapshot.namespace, service_domain)
        node = NODE_HOLE if slot.name in snapshot.done else fqdn
        by_rank[ranks[slot.name]] = node
        known = by_task.setdefault(slot.task.name, [])
        # The list is indexed by local index, and some indexes may be vacant.
        known.extend([NODE_HOLE] * (slot.index - len(known)))
        known.append(node)
    return NodeLists(
        by_rank=tuple(by_rank),
        by_task={task: tuple(nodes) for task, nodes in by_task.items()},
    )


def allocation_by_rank(snapshot: Snapshot) -> list[str]:
    """Return the nodes of the placement by rank, empty for an unused rank."""
    ranks = assign_ranks(snapshot)
    nodes = [""] * (max(ranks.values(), default=-1) + 1)
    for slot in snapshot.slots:
        nodes[ranks[slot.name]] = slot.node
    return nodes


def _replaced(snapshot: Snapshot) -> frozenset[str]:
    """Return the UIDs of pods whose place and rank another pod may have taken."""
    if not any(task.standby for task in snapshot.tasks):
        return frozenset()
    return snapshot.status.counted - {pod.uid for pod in snapshot.held.values()}


def _free(taken: set[int]) -> Iterator[int]:
    return (rank for rank in count() if rank not in taken)
