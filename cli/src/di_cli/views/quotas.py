"""Check whether the quotas of a namespace allow a job's pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import GROUP, PLURAL
from di_api.quantity import parse_quantity

Object = Mapping[str, Any]
Amounts = Mapping[str, Decimal]

_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources that a quota also counts under their short names, and that every pod has to request if
a quota does.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Equal pods of a job: the request and the limit of each, in base units."""

    task: str
    count: int
    requests: Amounts
    limits: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A quota with too little left; amounts in base units, as text."""

    quota: str
    resource: str
    needed: str
    left: str
    hard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """Text about the requests that quotas refuse, and about unknown quotas."""

    shortages: Sequence[Shortage] = ()
    notes: Sequence[str] = ()


def judge(quotas: Iterable[Object], pods: Sequence[Pods]) -> Ruling:
    """Compare a job's pods, and the job itself, with quotas as the API server does. Defaults by
    LimitRanges are unknown.
    """
    shortages: list[Shortage] = []
    notes: list[str] = []
    needed = _needed(pods)
    for quota in quotas:
        name = str(mapping(quota.get("metadata")).get("name"))
        spec, status = mapping(quota.get("spec")), mapping(quota.get("status"))
        if spec.get("scopes") or spec.get("scopeSelector"):
            notes.append(f"quota {name} is for some pods alone, by its scopes; it is left out")
            continue
        hard = mapping(status.get("hard")) or mapping(spec.get("hard"))
        used = mapping(status.get("used"))
        for resource, most in hard.items():
            if (found := _short(name, resource, most, used.get(resource), needed)) is not None:
                shortages.append(found)
            notes.extend(_unsaid(name, resource, pods))
    return Ruling(shortages=shortages, notes=notes)


def _short(
    quota: str, resource: str, hard: object, used: object, needed: Amounts
) -> Shortage | None:
    amount = needed.get(resource)
    if not amount:
        return None
    try:
        most = parse_quantity(hard)  # type: ignore[arg-type]  # any type: others are refused
        left = most - parse_quantity(used or "0")  # type: ignore[arg-type]  # the same
    except ValueError:
        return None
    if amount <= left:
        return None
    return Shortage(
        quota=quota,
        resource=resource,
        needed=_text(amount),
        left=_text(max(Decimal(0), left)),
        hard=_text(most),
    )


def _unsaid(quota: str, resource: str, pods: Sequence[Pods]) -> Iterator[str]:
    """Yield the refusals for pods that do not declare a resource that a quota counts."""
    kind, _, name = resource.rpartition(".")
    if name not in _COMPUTE or kind not in ("", "requests", "limits"):
        return
    silent = [
        each.task
        for each in pods
        if each.count and name not in (each.limits if kind == "limits" else each.requests)
    ]
    if silent:
        yield (
            f"quota {quota} wants {resource} of every pod, which {', '.join(silent)} does not say; "
            "a LimitRange may"
        )


def _needed(pods: Sequence[Pods]) -> dict[str, Decimal]:
    count = Decimal(sum(each.count for each in pods))
    found = {"pods": count, "count/pods": count, f"count/{PLURAL}.{GROUP}": Decimal(1)}
    for each in pods:
        for kind, amounts in (("requests", each.requests), ("limits", each.limits)):
            for name, amount in amounts.items():
                keys = [f"{kind}.{name}"]
                if kind == "requests" and name in _COMPUTE:
                    keys.append(name)
                for key in keys:
                    found[key] = found.get(key, Decimal(0)) + amount * each.count
    return found


def _text(amount: Decimal) -> str:
    """Return an amount in base units, without an exponent."""
    return f"{amount.normalize():f}"
