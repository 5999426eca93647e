"""The form of shard tables in `status.shards`, by the name of the data set."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.field_error import mapping
from di_api.status.shards import LEASES_FIELD, lease_parts, lease_text
from di_api.timestamps import format_time, parse_time
from di_server.jobs.shards.ranges import from_text, to_text
from di_server.jobs.shards.table import (
    MAX_EPOCHS,
    MAX_RECORDS,
    MAX_UNDONE,
    Lease,
    Plan,
    Table,
)

LEASES: Final = (5, 3600)
"""Shortest and longest lease in seconds."""
UID_KEPT: Final = 8
"""Characters of a pod's UID that are stored, which tell apart the pods of one name."""
_MAX_SEED: Final = 2**53
_MAX_DIGEST: Final = 64


def to_status(table: Table) -> dict[str, Any]:
    """Return what the status has for a table, its counts included."""
    leases = {worker: stored_lease(lease) for worker, lease in table.leases.items()}
    return {**fields_beside_leases(table), LEASES_FIELD: leases}


def fields_beside_leases(table: Table) -> dict[str, Any]:
    """Return what the status has for a table, without the shards of each worker."""
    return {
        **plan_fields(table.plan),
        "generation": table.generation,
        "after": table.after,
        "again": to_text(table.again),
        "done": table.done,
        "total": table.plan.total,
        "epoch": table.epoch,
    }


def stored_lease(lease: Lease) -> str:
    """Return what the status has for a lease."""
    return lease_text(
        until=format_time(lease.until), pod=lease.pod[:UID_KEPT], shards=to_text(lease.shards)
    )


def plan_fields(plan: Plan) -> dict[str, Any]:
    """Return the fields of a plan, as requests have them too."""
    return {
        "size": plan.size,
        "shardSize": plan.shard_size,
        "epochs": plan.epochs,
        "shuffle": plan.shuffle,
        "seed": plan.seed,
        "leaseSeconds": plan.lease_seconds,
        "records": plan.records,
    }


def read_plan(found: Mapping[str, Any]) -> Plan:
    """Return the plan in a request or in the status.

    Raises:
        ValueError: with the field and its bounds.
    """
    records, shuffle = found.get("records", ""), found.get("shuffle", False)
    if not isinstance(records, str) or len(records) > _MAX_DIGEST:
        raise ValueError(f"records must be a text of at most {_MAX_DIGEST} characters")
    if not isinstance(shuffle, bool):
        raise ValueError("shuffle must be true or false")
    return Plan(
        size=number(found, "size", 1, MAX_RECORDS),
        shard_size=number(found, "shardSize", 1, MAX_RECORDS, default=1),
        epochs=number(found, "epochs", 1, MAX_EPOCHS, default=1),
        shuffle=shuffle,
        seed=number(found, "seed", 0, _MAX_SEED, default=0),
        lease_seconds=number(found, "leaseSeconds", *LEASES, default=60),
        records=records,
    )


def number(
    found: Mapping[str, Any], key: str, least: int, most: int, *, default: int | None = None
) -> int:
    """Return a whole number within bounds.

    Raises:
        ValueError: with the key and the bounds.
    """
    value = found.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key} must be a whole number between {least} and {most}")
    return value


def read_undone(plan: Plan, after: int, text: object) -> frozenset[int]:
    """Return the shards that were given out and are not done, from the ranges of a position.

    Raises:
        ValueError: the text has another form, or too many shards.
    """
    return from_text(text, below=after, most=MAX_UNDONE) if after <= plan.total else frozenset()


def read_table(found: object) -> Table:
    """Return the table in a status.

    Raises:
        ValueError: it has another form, as after an edit by hand.
    """
    raw = mapping(found)
    plan = read_plan(raw)
    after = number(raw, "after", 0, plan.total)
    return Table(
        plan=plan,
        generation=number(raw, "generation", 0, _MAX_SEED),
        after=after,
        again=read_undone(plan, after, raw.get("again", "")),
        leases={
            worker: _lease(plan, after, lease)
            for worker, lease in mapping(raw.get(LEASES_FIELD)).items()
        },
    )


def _lease(plan: Plan, after: int, text: object) -> Lease:
    end, pod, shards = lease_parts(text)
    until: datetime | None = parse_time(end)
    if until is None:
        raise ValueError("a lease must be a time, a pod and ranges of shards")
    return Lease(shards=read_undone(plan, after, shards), until=until, pod=pod)
