"""Facts about a pod that several modules need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.pods.main_container import ENDED

PROGRAM_ENDED: Final = "programEnded"
"""Field that the cache adds to the status of a pod whose main container has ended for good."""


def is_leaving(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended or is terminating, so that clients must not use its
    address.
    """
    over = has_ended(pod) or (pod.get("status") or {}).get(PROGRAM_ENDED)
    return bool(over or pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether its containers have ended, so that another pod can have its address."""
    return (pod.get("status") or {}).get("phase") in ENDED


def addresses_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a pod: on dual-stack nodes one IPv4 and one IPv6 address."""
    status = pod.get("status") or {}
    more = [each.get("ip") for each in status.get("podIPs") or ()]
    return [ip for ip in dict.fromkeys((status.get("podIP"), *more)) if ip]
