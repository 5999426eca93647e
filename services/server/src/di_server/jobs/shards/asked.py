"""Parsing of requests for data shards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_server.jobs.shards.stored import number, read_plan, read_undone
from di_server.jobs.shards.table import MAX_AT_ONCE, Ask, Plan
from di_server.problems import OutOfBounds

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_WORKER: Final = re.compile(r"[A-Za-z0-9][-._A-Za-z0-9]{0,126}")
_MAX_INDEX: Final = 2**60


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """A worker's request for the next shards of a data set."""

    name: str
    plan: Plan
    ask: Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """A request to go on from the position of a checkpoint."""

    name: str
    plan: Plan
    after: int
    undone: frozenset[int]


def take(name: str, body: Mapping[str, Any]) -> Take:
    """Return a worker's request; unknown keys are ignored.

    Raises:
        OutOfBounds: with the field.
    """
    try:
        worker = body.get("worker")
        if not isinstance(worker, str) or not _WORKER.fullmatch(worker):
            raise ValueError("worker must be a name of at most 127 letters, digits, -, . and _")
        leaves = body.get("leaves", False)
        if not isinstance(leaves, bool):
            raise ValueError("leaves must be true or false")
        has_generation = body.get("generation") is not None
        ask = Ask(
            worker=worker,
            generation=number(body, "generation", 0, _MAX_INDEX) if has_generation else None,
            done=_indexes(body, "done"),
            holds=_indexes(body, "holds"),
            number=number(body, "number", 0, MAX_AT_ONCE, default=1),
            leaves=leaves,
        )
        return Take(name=_named(name), plan=read_plan(body), ask=ask)
    except ValueError as error:
        raise OutOfBounds(str(error)) from error


def restore(name: str, body: Mapping[str, Any]) -> Restore:
    """Return a request to go on from a position; unknown keys are ignored.

    Raises:
        OutOfBounds: with the field.
    """
    try:
        plan = read_plan(body)
        after = number(body, "after", 0, plan.total)
        undone = read_undone(plan, after, body.get("undone", ""))
        return Restore(name=_named(name), plan=plan, after=after, undone=undone)
    except ValueError as error:
        raise OutOfBounds(str(error)) from error


def named(name: str) -> str:
    """Return the name of a data set.

    Raises:
        OutOfBounds: it is too long, or has other characters.
    """
    try:
        return _named(name)
    except ValueError as error:
        raise OutOfBounds(str(error)) from error


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(
            "the name of a data set must have at most 63 lower-case letters, digits and -"
        )
    return name


def _indexes(body: Mapping[str, Any], key: str) -> frozenset[int]:
    found = body.get(key, [])
    if not isinstance(found, list) or len(found) > MAX_AT_ONCE:
        raise ValueError(f"{key} must be a list of at most {MAX_AT_ONCE} indexes")
    if not all(type(each) is int and 0 <= each <= _MAX_INDEX for each in found):
        raise ValueError(f"{key} must have indexes of shards only, whole numbers from 0")
    return frozenset(found)
