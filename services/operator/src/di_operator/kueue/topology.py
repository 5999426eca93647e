"""Topology requests of podSets, and the additions to pods that Kueue assigns to a domain.

Fields and rules are those of topology-aware scheduling,
https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/. Kueue keeps at most two podSets
together, one of which is a single pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.spec import Colocate, Topology
from di_operator.builders.topology import ANNOTATIONS_ASKED, Domains
from di_operator.kueue.portions import PodSet
from di_operator.kueue.workload import Words, Workload

_TOGETHER: Final = 2
"""Number of podSets that Kueue can keep together."""


def domains_of(core: Workload | None, found: Iterable[PodSet]) -> Domains:
    """Return the domains of the admitted core, which has these podSets."""
    if core is None:
        return Domains()
    pod_sets = {
        str(each.get("name")): _asked(mapping(each.get("topologyRequest")))
        for each in map(mapping, items(mapping(core.raw.get("spec")).get("podSets")))
        if mapping(core.assigned.get(str(each.get("name")))).get("topologyAssignment")
    }
    leaders = {each.task: each.name for each in found if each.of_leaders}
    return Domains(workload=core.name, pod_sets=pod_sets, leaders=leaders)


def _asked(request: Mapping[str, Any]) -> dict[str, str]:
    return {
        annotation: str(request[mode])
        for mode, annotation in ANNOTATIONS_ASKED.items()
        if request.get(mode)
    }


def with_requests(
    pod_sets: Sequence[PodSet], topology: Iterable[Topology]
) -> tuple[tuple[PodSet, ...], Words | None]:
    """Return the podSets with their topology requests, and why Kueue cannot satisfy them."""
    found, problem = [*pod_sets], None
    for index, each in enumerate(topology):
        if each.colocate is Colocate.REPLICA:
            problem = problem or _replicas(each)
            continue
        groups = [each.tasks] if each.colocate is Colocate.TASKS else [(t,) for t in each.tasks]
        for tasks in groups:
            mine = [pod_set for pod_set in found if pod_set.task in tasks]
            problem = problem or _together(each, mine)
            request = _request(each, f"topology-{index}-{tasks[0]}" if len(mine) > 1 else None)
            found = [
                replace(pod_set, topology=request) if pod_set.task in tasks else pod_set
                for pod_set in found
            ]
    return tuple(found), problem


def _request(topology: Topology, group: str | None) -> Mapping[str, Any]:
    mode = "required" if topology.required else "preferred"
    # For a preferred topology Kueue is not asked to keep podSets together.
    named = {"podSetGroupName": group} if group and topology.required else {}
    return {mode: topology.level, **named}


def _together(topology: Topology, pod_sets: Sequence[PodSet]) -> Words | None:
    if not topology.required or len(pod_sets) < _TOGETHER:
        return None
    if len(pod_sets) == _TOGETHER and min(each.count for each in pod_sets) == 1:
        return None
    names = ", ".join(f"{each.count} of {each.name}" for each in pod_sets)
    return Words(
        reason="TopologyNotSupported",
        message="Kueue keeps two groups of equal pods in one domain, of which one is a single pod; "
        f"spec.scheduling.topology requires it of {names}",
    )


def _replicas(topology: Topology) -> Words | None:
    if not topology.required:
        return None
    return Words(
        reason="TopologyNotSupported",
        message="in a queue of Kueue colocate Replica can be preferred, not required",
    )
