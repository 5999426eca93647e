"""What the bodies of requests about jobs with tasks ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from marshmallow import EXCLUDE, Schema, ValidationError, fields

from di_api.spec import MAX_PODS
from di_server.deadline import check_wait
from di_server.jobs.groups import GroupRequest
from di_server.jobs.operations import GENERATION, WAIT
from di_server.jobs.scaling import ScalingRequest
from di_server.problems import Malformed, OutOfBounds
from di_server.rest.query import read_query, whole_number


def scaling_request(body: Mapping[str, Any], *, sign: int) -> ScalingRequest:
    """What a body of `.../replicas` asks for; unknown keys are ignored.

    Args:
        sign: 1 to add and -1 to remove.

    Raises:
        Malformed, OutOfBounds: naming the field.
    """
    try:
        values = _SCHEMA.load(body)
    except ValidationError as error:
        found = error.messages_dict
        raise Malformed("; ".join(f"{key}: {' '.join(found[key])}" for key in found)) from error
    replicas = values["replicas"]
    if not 1 <= replicas <= MAX_PODS:
        raise OutOfBounds(f"replicas must be between 1 and {MAX_PODS}, the most pods of a job")
    return ScalingRequest(sign * replicas, values["task"])


def profilings(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reported object: the body, or what a lone `data` key holds."""
    inner = body.get("data")
    return inner if len(body) == 1 and isinstance(inner, dict) else body


def group_request(task: str, query: Iterable[tuple[str, str]]) -> GroupRequest:
    """What a path and a query of `.../group/<task>` ask for; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: naming the key.
    """
    found = {
        key: whole_number(key, text) for key, text in read_query(query, (GENERATION, WAIT)).items()
    }
    wait = found.get(WAIT, 0)
    check_wait(wait)
    return GroupRequest(task=task, known=found.get(GENERATION), wait=wait)


class _ScalingBody(Schema):
    class Meta:
        unknown = EXCLUDE

    replicas = fields.Integer(
        required=True,
        strict=True,
        error_messages={
            "required": "is missing, a whole number",
            **dict.fromkeys(("null", "invalid", "too_large"), "must be a whole number"),
        },
    )
    task = fields.String(
        load_default=None,
        allow_none=True,
        error_messages={"invalid": "must be the name of a task"},
    )


_SCHEMA: Final = _ScalingBody()
