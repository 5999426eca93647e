"""View model of queues: what each namespace uses, its fair share, and what it borrows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from di_api.field_error import mapping
from di_cli.views.allocation import Node, text

Object = Mapping[str, Any]

_SHARES: Final = "shares"
_DEFAULT_SHARE: Final = "default_share"
_QUEUES: Final = "queues"
_MOST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A namespace.

    Attributes:
        cells: values of the columns from the allocator's arguments, in order.
        due: its part of all resources by the weights of active namespaces; empty without weights.
        borrowed: what it uses beyond that; empty without weights.
    """

    name: str
    held: str
    waiting: int
    cells: Sequence[str]
    due: str = ""
    borrowed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """All queues.

    Attributes:
        columns: names of the settings of namespaces, whatever they are.
        has_due: whether there are weights.
    """

    columns: Sequence[str]
    rows: Sequence[QueueRow]
    has_due: bool


def queues(
    nodes: Sequence[Node], waiting: Mapping[str, int], arguments: Mapping[str, Any]
) -> Queues:
    """Return the queues from used resources, numbers of waiting jobs by namespace, and the
    allocator's arguments.

    The allocator divides demand by water-filling; the share shown here is the part by weights among
    the namespaces that use or want resources.
    """
    held: dict[str, Decimal] = {}
    for node in nodes:
        for key, amount in node.jobs.items():
            namespace = key.partition("/")[0]
            held[namespace] = held.get(namespace, Decimal(0)) + amount
    told, total = _told(arguments), sum((node.total for node in nodes), Decimal(0))
    names = sorted({*held, *waiting, *(name for column in told.values() for name in column)})
    weights = _weights(arguments, told, {*held, *waiting})
    everybody = sum(weights.values(), Decimal(0))
    rows = []
    for name in names[:_MOST]:
        has, due = held.get(name, Decimal(0)), None
        if everybody:
            due = total * weights.get(name, Decimal(0)) / everybody
        rows.append(
            QueueRow(
                name=name,
                held=text(has),
                waiting=waiting.get(name, 0),
                cells=[_said(column.get(name)) for column in told.values()],
                due="" if due is None else text(_tenths(due)),
                borrowed="" if due is None or has <= due else text(_tenths(has - due)),
            )
        )
    return Queues(columns=[*told], rows=rows, has_due=bool(everybody))


def _told(arguments: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the settings of namespaces, by column: `{shares: {team: 3}}` and `{queues: {team:
    {weight: 3, quota: {...}}}}` are both supported, with any field names.
    """
    found: dict[str, Mapping[str, Any]] = {}
    if shares := mapping(arguments.get(_SHARES)):
        found["share"] = shares
    for namespace, fields in mapping(arguments.get(_QUEUES)).items():
        for key, value in mapping(fields).items():
            column = dict(found.get(str(key), {}))
            column[str(namespace)] = value
            found[str(key)] = column
    return found


def _weights(
    arguments: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]], wanting: Iterable[str]
) -> dict[str, Decimal]:
    column = told.get("share") or told.get("weight")
    if not column:
        return {}
    default = _number(arguments.get(_DEFAULT_SHARE), Decimal(1))
    return {name: _number(column.get(name), default) for name in wanting}


def _number(value: object, default: Decimal) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return Decimal(str(value))


def _tenths(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.1")).normalize()


def _said(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{amount} {name}" for name, amount in value.items())
    return str(value)
