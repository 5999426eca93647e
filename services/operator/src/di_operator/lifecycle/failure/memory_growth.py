"""Larger memory requests for containers that were OOM-killed.

Only the kubelet's reason OOMKilled counts: other causes send SIGKILL too (exit code 137).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from di_api.quantity import LARGEST, fault_of_amount, format_quantity, read_quantity
from di_api.spec import MemoryGrowth
from di_operator.lifecycle.observed.pods import Pod, oom_killed


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The present and the next memory size of a container; no next size if it cannot grow."""

    container: str
    old: str
    new: str | None
    largest_node: str | None = None
    """Memory of the largest node, if this and not the policy is the limit."""


def growths(
    pod: Pod,
    pod_spec: Mapping[str, Any],
    grown: Mapping[str, str],
    policy: MemoryGrowth,
    largest_node: Decimal | None,
) -> Iterator[Growth]:
    """Yield the next memory sizes of a pod's OOM-killed containers.

    `pod_spec` is the pod's spec in the job, `grown` has the sizes reached so far. A container
    without a memory limit was killed because of others, and is left out. Unless the policy has a
    limit, nothing grows past the memory of the `largest_node`; None if that is unknown.
    """
    for name in oom_killed(pod):
        had = grown.get(name) or _limit(pod_spec, name)
        if had is None or fault_of_amount(had):
            continue
        old = read_quantity(had)
        new = next_size(old, policy)
        if policy.limit is None and largest_node is not None and new > largest_node:
            largest = format_quantity(largest_node)
            yield Growth(container=name, old=format_quantity(old), new=None, largest_node=largest)
            continue
        yield Growth(
            container=name,
            old=format_quantity(old),
            new=format_quantity(new) if new > old else None,
        )


def next_size(old: Decimal, policy: MemoryGrowth) -> Decimal:
    """Return the size that follows one in bytes; the same size if it cannot grow."""
    sizes = [old * policy.factor, LARGEST]
    if policy.max_step is not None:
        sizes.append(old + read_quantity(policy.max_step))
    if policy.limit is not None:
        sizes.append(read_quantity(policy.limit))
    return max(old, min(sizes))


def _limit(pod_spec: Mapping[str, Any], name: str) -> str | int | None:
    for field in ("initContainers", "containers"):
        for container in pod_spec.get(field) or ():
            if container.get("name") == name:
                resources = container.get("resources") or {}
                return (resources.get("limits") or {}).get("memory")
    return None
