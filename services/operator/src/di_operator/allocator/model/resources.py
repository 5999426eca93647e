"""Comparison of resource amounts; their format is that of `di_operator.resources`."""

from __future__ import annotations

from collections.abc import Mapping

from di_operator.resources import (
    PODS,
    UNIT,
    Resources,
    in_units,
    largest,
    pod_request,
    read_resources,
    total,
)

__all__ = [
    "PODS",
    "UNIT",
    "Resources",
    "in_units",
    "largest",
    "pod_request",
    "read_resources",
    "scarcest",
    "total",
]


def scarcest(wanted: Mapping[str, float], free: Resources) -> str:
    """Return the resource that would be used up first; the first by name of equals, so that the
    order of requests does not matter.
    """
    return max(sorted(wanted), key=lambda name: wanted[name] / max(free.get(name, 0), 1))
