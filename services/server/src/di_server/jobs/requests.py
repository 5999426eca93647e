"""Parsing of requests about jobs with tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, ValidationError, fields

from di_api.spec import MAX_PODS
from di_server.deadline import check_wait
from di_server.jobs.addresses import PodsRequest
from di_server.jobs.groups import GroupRequest
from di_server.jobs.heartbeats import KEY, Beat, beat_of
from di_server.jobs.scaling import ScalingRequest
from di_server.problems import Malformed, OutOfBounds
from di_server.rest.query import read_query, whole_number

GENERATION: Final = "generation"
WAIT: Final = "wait"
NODES_OF: Final = "nodesOf"


def addition(body: Mapping[str, Any]) -> ScalingRequest:
    """Return the replicas that a body adds; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: with the field.
    """
    values = _load(_SCALING, body)
    return ScalingRequest(_within_bounds(values["replicas"]), values["task"])


def setting(body: Mapping[str, Any]) -> ScalingRequest:
    """Return the total of replicas that a body sets; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: with the field.
    """
    values = _load(_SCALING, body)
    return ScalingRequest(0, values["task"], to=_within_bounds(values["replicas"]))


def removal(body: Mapping[str, Any]) -> ScalingRequest:
    """Return the number, or the names, of replicas that a body removes; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: with the field.
    """
    values = _load(_REMOVAL, body)
    replicas, named = values["replicas"], values["names"]
    if named is not None:
        if replicas is not None:
            raise Malformed("replicas: is the number of names, and not given beside them")
        if not 1 <= len(named) <= MAX_PODS:
            raise OutOfBounds(f"names must be between 1 and {MAX_PODS}, the most pods of a job")
        return ScalingRequest(-len(named), values["task"], tuple(named))
    if replicas is None:
        raise Malformed(f"replicas: {_NO_NUMBER['required']}")
    return ScalingRequest(-_within_bounds(replicas), values["task"])


def _load(schema: Schema, body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        values: dict[str, Any] = schema.load(body)
    except ValidationError as error:
        found = error.messages_dict
        raise Malformed("; ".join(f"{key}: {' '.join(found[key])}" for key in found)) from error
    return values


def _within_bounds(replicas: int) -> int:
    if not 1 <= replicas <= MAX_PODS:
        raise OutOfBounds(f"replicas must be between 1 and {MAX_PODS}, the most pods of a job")
    return replicas


def profilings(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reported object: the body, or the value of its only key `data`."""
    inner = body.get("data")
    return inner if len(body) == 1 and isinstance(inner, dict) else body


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A report, and the task whose number of nodes is to be in the answer; empty: none."""

    profilings: Mapping[str, Any]
    nodes_of: str = ""
    beat: Beat | None = None


def report_request(body: Mapping[str, Any], query: Iterable[tuple[str, str]]) -> ReportRequest:
    """The report in a body, and what its query asks for; unknown keys are ignored.

    Raises:
        OutOfBounds: the heartbeat is invalid.
    """
    reported = dict(profilings(body))
    beat = beat_of(reported.pop(KEY)) if KEY in reported else None
    return ReportRequest(reported, read_query(query, (NODES_OF,)).get(NODES_OF, ""), beat)


def pods_request(task: str, query: Iterable[tuple[str, str]], known: frozenset[str]) -> PodsRequest:
    """Return the request in path, query and If-None-Match of `.../pods/<task>`; unknown keys are
    ignored.

    Raises:
        Malformed, OutOfBounds: with the key.
    """
    return PodsRequest(task=task, known=known, wait=_wait(read_query(query, (WAIT,))))


def group_request(task: str, query: Iterable[tuple[str, str]]) -> GroupRequest:
    """Return the request in path and query of `.../group/<task>`; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: with the key.
    """
    found = read_query(query, (GENERATION, WAIT))
    known = whole_number(GENERATION, found[GENERATION]) if GENERATION in found else None
    return GroupRequest(task=task, known=known, wait=_wait(found))


def _wait(query: Mapping[str, str]) -> int:
    """Return the seconds to wait."""
    wait = whole_number(WAIT, query.get(WAIT, "0"))
    check_wait(wait)
    return wait


_NO_NUMBER: Final[dict[str, Any]] = {
    "required": "is missing, a whole number",
    **dict.fromkeys(("null", "invalid", "too_large"), "must be a whole number"),
}


def _check_names(value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValidationError("must be a list of names of replicas or pods")


class _ScalingBody(Schema):
    class Meta:
        unknown = EXCLUDE

    replicas = fields.Integer(required=True, strict=True, error_messages=_NO_NUMBER)
    task = fields.String(
        load_default=None,
        allow_none=True,
        error_messages={"invalid": "must be the name of a task"},
    )


class _RemovalBody(_ScalingBody):
    replicas = fields.Integer(
        load_default=None, allow_none=False, strict=True, error_messages=_NO_NUMBER
    )
    names = fields.Raw(load_default=None, allow_none=True, validate=_check_names)


_SCALING: Final = _ScalingBody()
_REMOVAL: Final = _RemovalBody()
