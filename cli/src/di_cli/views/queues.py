"""The allocator's queues: guarantees, quotas and use of namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

HEADER: Final = ("NAMESPACE", "WEIGHT", "RESOURCE", "GUARANTEE", "QUOTA", "USED", "BORROWED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A resource of a namespace, in base units; None: no guarantee, no quota, or the default
    weight.
    """

    namespace: str
    weight: float | None
    resource: str
    guarantee: float | None
    quota: float | None
    used: float
    borrowed: float


def cells(found: Queue) -> tuple[str, ...]:
    """Return the texts of a row, in the order of the header."""
    amounts = (found.guarantee, found.quota, found.used, found.borrowed)
    return (
        found.namespace,
        _text(found.weight),
        found.resource,
        *(_text(amount) for amount in amounts),
    )


def as_json(found: Queue) -> dict[str, Any]:
    """Return the data for programs; amounts in base units."""
    return {
        "namespace": found.namespace,
        "weight": found.weight,
        "resource": found.resource,
        "guarantee": found.guarantee,
        "quota": found.quota,
        "used": found.used,
        "borrowed": found.borrowed,
    }


def _text(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:g}" if amount < 1e6 else f"{amount:.0f}"
