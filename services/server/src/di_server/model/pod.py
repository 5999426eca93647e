"""What is read of a pod in more than one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ENDED: Final = ("Succeeded", "Failed")


def is_leaving(pod: Mapping[str, Any]) -> bool:
    """Whether it has ended or is about to: nobody is to be sent there any more."""
    return has_ended(pod) or bool(pod["metadata"].get("deletionTimestamp"))


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether its containers have ended: its address may be another pod's by now."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def addresses_of(pod: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a pod: where nodes have IPv4 and IPv6, one of each."""
    status = pod.get("status") or {}
    more = [each.get("ip") for each in status.get("podIPs") or ()]
    return [ip for ip in dict.fromkeys((status.get("podIP"), *more)) if ip]
