"""The REST operations for coordinators, which DI-engine's clients call.

The application creates its routes, and OpenAPI its document, from this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from di_api.names import COORDINATED_VERSIONS
from di_api.spec import MAX_REPLICAS
from di_server.access.grants import Grant
from di_server.coordination import requests
from di_server.coordination.listing import Listing
from di_server.coordination.requests import NAMESPACE, PODS, Requester
from di_server.coordination.service import CoordinationService
from di_server.deadline import Deadline
from di_server.rest.operation import UNSETTLED, Operation, Shape

T = TypeVar("T")

PREFIXES: Final = tuple(f"/{version}" for version in COORDINATED_VERSIONS)
"""Path prefixes of the same API."""
MAX_BODY: Final = 256 * 1024
"""Maximum bytes of a body; a list of all pods of a job fits."""
_URL: Final = {"type": "string", "description": "<pod>.<namespace>:<port>"}
_NAMES: Final = {"type": "array", "items": {"type": "string"}}
_QUANTITY: Final = {"type": ["string", "number", "null"]}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WriteOperation(Operation, Generic[T]):
    """An operation that changes the replicas of a coordinator."""

    read: Callable[[Mapping[str, Any]], T]
    """Parses a body; raises Malformed or OutOfBounds with the field."""
    run: Callable[[CoordinationService, Grant, Requester, T, Deadline], Listing]
    """Executes the operation; returns the affected replicas."""


def _body(role_demand: dict[str, Any]) -> Shape:
    return {
        "type": "object",
        "required": ["namespace", "coordinator"],
        "properties": {
            "namespace": {"type": "string"},
            "coordinator": {"type": "string", "description": "A coordinator or an aggregator."},
            "collectors": role_demand,
            "learners": role_demand,
        },
    }


_COUNT: Final = {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_REPLICAS}
_LISTING: Final[Shape] = {
    "type": "object",
    "required": ["namespace", "coordinator", "collectors", "learners"],
    "properties": {
        "namespace": {"type": "string"},
        "coordinator": {"type": "string"},
        "collectors": {"type": "array", "items": _URL},
        "learners": {"type": "array", "items": _URL},
    },
}

LIST: Final = Operation(
    name="listCoordinatedReplicas",
    method="GET",
    resource="replicas",
    verb="get",
    summary="List the replicas of a coordinator or an aggregator; without one, of all "
    "coordinators the caller may see.",
    message="successfully get replicas",
    body=None,
    data={"anyOf": [_LISTING, {"type": "array", "items": _LISTING}]},
    query=(NAMESPACE, *PODS),
)
CREATE: Final = WriteOperation(
    name="createCoordinatedReplicas",
    method="POST",
    resource="replicas",
    verb="update",
    summary="Add replicas; the answer lists the new ones.",
    message="successfully create replicas",
    max_body=MAX_BODY,
    body=_body(
        {
            "type": ["object", "null"],
            "properties": {
                "replicas": _COUNT,
                "cpus": _QUANTITY,
                "memory": _QUANTITY,
                "gpus": _QUANTITY,
            },
        }
    ),
    data=_LISTING,
    errors=UNSETTLED,
    read=requests.demand,
    run=CoordinationService.add,
)
DELETE: Final = WriteOperation(
    name="deleteCoordinatedReplicas",
    method="DELETE",
    resource="replicas",
    verb="update",
    summary="Remove the newest replicas; the answer lists them.",
    message="successfully delete replicas",
    max_body=MAX_BODY,
    body=_body({"type": ["object", "null"], "properties": {"replicas": _COUNT}}),
    data=_LISTING,
    errors=UNSETTLED,
    read=requests.demand,
    run=CoordinationService.remove,
)
REPLACE: Final = WriteOperation(
    name="recreateCoordinatedReplicas",
    method="POST",
    resource="replicas/failed",
    verb="update",
    summary="Put new replicas in the places of failed ones; the answer lists the new ones.",
    message="successfully recreate replicas",
    max_body=MAX_BODY,
    body=_body({**_NAMES, "type": ["array", "null"], "description": "Names of pods."}),
    data=_LISTING,
    errors=UNSETTLED,
    read=requests.failed,
    run=CoordinationService.replace,
)
OPERATIONS: Final = (LIST, CREATE, DELETE, REPLACE)
