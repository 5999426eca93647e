"""Facts about a pod that several modules need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ENDED: Final = ("Succeeded", "Failed")


def is_leaving(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has ended or is terminating, so that clients must not use its
    address.
    """
    return has_ended(pod) or bool(pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Return whether its containers have ended, so that another pod can have its address."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def addresses_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a pod: on dual-stack nodes one IPv4 and one IPv6 address."""
    status = pod.get("status") or {}
    more = [each.get("ip") for each in status.get("podIPs") or ()]
    return [ip for ip in dict.fromkeys((status.get("podIP"), *more)) if ip]
