"""The REST operations on jobs with tasks: paths, methods, shapes, parsers and handlers.

The application creates its routes, and OpenAPI its document, from this table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from di_api.names import VERSION
from di_api.spec import MAX_PODS
from di_api.status.groups import GroupState
from di_api.status.heartbeats import LEAST_SECONDS, MOST_SECONDS
from di_server.access.grants import Grant
from di_server.deadline import Deadline
from di_server.jobs import requests
from di_server.jobs.idempotency import idempotency_key
from di_server.jobs.requests import GENERATION, NODES_OF, WAIT, ReportRequest
from di_server.jobs.scaling import ScalingRequest
from di_server.jobs.service import JobService
from di_server.jobs.shards import asked as shards_asked
from di_server.jobs.shards.table import MAX_AT_ONCE
from di_server.rest.incoming import Incoming
from di_server.rest.operation import UNSETTLED, Operation, Shape

T = TypeVar("T")

PREFIX: Final = f"/{VERSION}"
_SCALING_BODY: Final[Shape] = {
    "type": "object",
    "required": ["replicas"],
    "properties": {
        "replicas": {"type": "integer", "minimum": 1, "maximum": MAX_PODS},
        "task": {
            "type": ["string", "null"],
            "description": "Default: the collector task, or the only task of the job.",
        },
    },
}
_REMOVAL_BODY: Final[Shape] = {
    "type": "object",
    "oneOf": [{"required": ["replicas"]}, {"required": ["names"]}],
    "properties": {
        **_SCALING_BODY["properties"],
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_PODS,
            "description": "Replicas of one task, or pods of them. Default: the highest indexes.",
        },
    },
}
_SCALING_DATA: Final[Shape] = {
    "type": "object",
    "required": ["task", "replicas"],
    "properties": {
        "task": {"type": "string"},
        "replicas": {"type": "integer", "description": "The value set by this request."},
        "warning": {
            "type": "string",
            "description": "What the change costs beside the pods that it adds or removes.",
        },
    },
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobOperation(Operation, Generic[T]):
    """An operation on a job with tasks."""

    read: Callable[[Incoming], T]
    """Parses a request; raises Malformed or OutOfBounds with the field."""
    run: Callable[[JobService, Grant, T, Deadline], object]
    """Executes the operation; returns the data of the response."""
    is_frequent: bool = False
    """Whether each pod of the job sends it all the time: it then counts for the rate limit of its
    pod, and whether the pod exists is known from the watch.
    """


def _nothing(_: Incoming) -> None:
    """Return None: the path has all parameters."""


@dataclass(frozen=True, slots=True)
class _Scaling:
    change: ScalingRequest
    incoming: Incoming


def _scaling(read: Callable[[Mapping[str, Any]], ScalingRequest]) -> Callable[[Incoming], _Scaling]:
    return lambda incoming: _Scaling(read(incoming.body), incoming)


def _scale(
    service: JobService, grant: Grant, asked: _Scaling, deadline: Deadline
) -> dict[str, Any]:
    incoming = asked.incoming
    key = idempotency_key(
        incoming.idempotency_key, incoming.method, incoming.body, caller=grant.caller
    )
    result = service.scale(grant, asked.change, key, deadline, incoming.trace)
    return {key: value for key, value in dataclasses.asdict(result).items() if value is not None}


def _report(
    service: JobService, grant: Grant, reported: ReportRequest, deadline: Deadline
) -> dict[str, int] | None:
    advice = service.report(grant, reported.profilings, deadline, reported.beat)
    nodes = advice.nodes.get(reported.nodes_of)
    return {
        **({} if advice.batch_size is None else {"batchSize": advice.batch_size}),
        **({} if nodes is None else {"nodes": nodes}),
    } or None


LIST_REPLICAS: Final = JobOperation(
    name="listReplicas",
    method="GET",
    resource="replicas",
    verb="get",
    summary="List ip:port of every replica by rank; an empty string where nothing listens yet.",
    message="successfully get replicas",
    body=None,
    data={"type": "array", "items": {"type": "string"}},
    read=_nothing,
    run=lambda service, grant, _, deadline: service.replicas(grant, deadline),
)
ADD_REPLICAS: Final = JobOperation(
    name="addReplicas",
    method="POST",
    resource="replicas",
    verb="update",
    summary="Add replicas to a task.",
    message="successfully create replicas",
    body=_SCALING_BODY,
    data=_SCALING_DATA,
    errors=UNSETTLED,
    idempotent=True,
    read=_scaling(requests.addition),
    run=_scale,
)
REMOVE_REPLICAS: Final = JobOperation(
    name="removeReplicas",
    method="DELETE",
    resource="replicas",
    verb="update",
    summary="Remove replicas from a task, some number of them or those that are named.",
    message="successfully delete replicas",
    body=_REMOVAL_BODY,
    data=_SCALING_DATA,
    errors=UNSETTLED,
    idempotent=True,
    read=_scaling(requests.removal),
    run=_scale,
)
SET_REPLICAS: Final = JobOperation(
    name="setReplicas",
    method="PUT",
    resource="replicas",
    verb="update",
    summary="Set the number of replicas of a task.",
    message="successfully set replicas",
    body=_SCALING_BODY,
    data=_SCALING_DATA,
    errors=UNSETTLED,
    idempotent=True,
    read=_scaling(requests.setting),
    run=_scale,
)
LIST_TASKS: Final = JobOperation(
    name="listTasks",
    method="GET",
    resource="tasks",
    verb="get",
    summary="The tasks of a job, and how many replicas each of them is to have.",
    message="successfully get tasks",
    body=None,
    errors={422: "The job has a coordinator in place of tasks."},
    data={
        "type": "array",
        "items": {
            "type": "object",
            "required": ["task", "replicas"],
            "properties": {"task": {"type": "string"}, "replicas": {"type": "integer"}},
        },
    },
    read=_nothing,
    run=lambda service, grant, _, deadline: service.tasks(grant, deadline),
)
LIST_PODS: Final = JobOperation(
    name="listPods",
    method="GET",
    resource="pods",
    below="task",
    verb="get",
    summary="The pods of a task that run, by rank, and where they listen; waits for others.",
    message="successfully get pods",
    body=None,
    query=(WAIT,),
    is_tagged=True,
    errors={422: "No such task, or a wait past its bound."},
    data={
        "type": "array",
        "items": {
            "type": "object",
            "required": ["pod", "rank", "address"],
            "properties": {
                "pod": {"type": "string"},
                "rank": {"type": "integer"},
                "address": {"type": "string", "description": "ip:port"},
            },
        },
    },
    read=lambda asked: requests.pods_request(asked.below, asked.query, asked.known),
    # It can wait for longer than the deadline of other operations.
    run=lambda service, grant, asked, _: service.pods(grant, asked),
)
REPORT_PROFILINGS: Final = JobOperation(
    name="reportProfilings",
    method="POST",
    resource="profilings",
    verb="update",
    summary="Merge an object into status.profilings (RFC 7396: null removes a key).",
    message="successfully report profilings",
    body={
        "type": "object",
        "description": 'The profilings, or {"data": the profilings}. The key `heartbeat` is not '
        "stored in them: the pod, and the seconds within which it sends the next one.",
        "properties": {
            "heartbeat": {
                "type": "object",
                "required": ["pod", "withinSeconds"],
                "properties": {
                    "pod": {"type": "string"},
                    "withinSeconds": {
                        "type": "integer",
                        "minimum": LEAST_SECONDS,
                        "maximum": MOST_SECONDS,
                    },
                },
            }
        },
    },
    data={
        "type": ["object", "null"],
        "properties": {
            "batchSize": {
                "type": "integer",
                "minimum": 1,
                "description": "Samples of all learners between two updates, as the allocator "
                "advises; absent where it does not.",
            },
            "nodes": {
                "type": "integer",
                "minimum": 1,
                "description": "Nodes that the replicas of the task `nodesOf` are on, as the "
                "allocator placed them; absent without that parameter.",
            },
        },
    },
    query=(NODES_OF,),
    read=lambda asked: requests.report_request(asked.body, asked.query),
    run=_report,
)
SHOW_PROFILINGS: Final = JobOperation(
    name="showProfilings",
    method="GET",
    resource="profilings",
    verb="get",
    summary="What the job has reported last, status.profilings.",
    message="successfully get profilings",
    body=None,
    data={"type": "object"},
    read=_nothing,
    run=lambda service, grant, _, deadline: service.reported(grant, deadline),
)
SHOW_GROUP: Final = JobOperation(
    name="showGroup",
    method="GET",
    resource="group",
    below="task",
    verb="get",
    summary="Who belongs to the process group of a task; waits for another generation.",
    message="successfully get group",
    body=None,
    query=(GENERATION, WAIT),
    errors={422: "No such task, no process group, or a wait past its bound."},
    data={
        "type": "object",
        "required": ["generation", "state", "worldSize", "masterAddress", "members"],
        "properties": {
            "generation": {"type": "integer", "description": "Number of worlds there have been."},
            "state": {"enum": [each.value for each in GroupState]},
            "worldSize": {"type": "integer", "description": "Processes of all members."},
            "masterAddress": {"type": "string", "description": "Of rank 0; empty without a world."},
            "members": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "rank", "pod", "address"],
                    "properties": {
                        "index": {"type": "integer"},
                        "rank": {"type": "integer"},
                        "pod": {"type": "string"},
                        "address": {"type": "string"},
                    },
                },
            },
        },
    },
    read=lambda asked: requests.group_request(asked.below, asked.query),
    # It can wait for longer than the deadline of other operations.
    run=lambda service, grant, asked, _: service.group(grant, asked),
)
_INDEX: Final[Shape] = {"type": "integer", "minimum": 0}
_INDEXES: Final[Shape] = {"type": "array", "items": _INDEX, "maxItems": MAX_AT_ONCE}
_PLAN: Final[Shape] = {
    "size": {"type": "integer", "minimum": 1, "description": "Records of the data set."},
    "shardSize": {"type": "integer", "minimum": 1, "description": "Records of a shard; default 1."},
    "epochs": {"type": "integer", "minimum": 1, "description": "Default 1."},
    "shuffle": {"type": "boolean", "description": "Whether each epoch has an order of its own."},
    "seed": {"type": "integer", "minimum": 0, "description": "Of these orders; default 0."},
    "leaseSeconds": {
        "type": "integer",
        "description": "How long a worker has from its last request on; default 60.",
    },
    "records": {"type": "string", "description": "Digest of the names of records, if any."},
}
_POSITION: Final[Shape] = {
    "after": {"type": "integer", "minimum": 0, "description": "First index never given out."},
    "undone": {
        "type": "string",
        "description": "Ranges of the indexes below it that are not done, such as 0-3,7.",
    },
}
_COUNTS: Final[Shape] = {
    "generation": {"type": "integer", "description": "Grows with each restored position."},
    "done": {"type": "integer"},
    "total": {"type": "integer", "description": "Shards of all epochs."},
}
TAKE_SHARDS: Final = JobOperation(
    name="takeShards",
    method="POST",
    resource="shards",
    below="dataset",
    verb="update",
    summary="Report shards as done, and get the next ones.",
    message="successfully take shards",
    body={
        "type": "object",
        "required": ["size", "worker"],
        "properties": {
            **_PLAN,
            "worker": {"type": "string", "description": "Of no other process, now or before."},
            "generation": {"type": ["integer", "null"], "description": "Of the last answer."},
            "done": _INDEXES,
            "holds": {**_INDEXES, "description": "What the worker has, and has not done."},
            "number": {**_INDEX, "maximum": MAX_AT_ONCE, "description": "Default 1."},
            "leaves": {"type": "boolean", "description": "Give what it has to others."},
        },
    },
    errors={422: "A value beyond its bound.", 409: "The data set is divided in another way."},
    data={
        "type": "object",
        "required": [
            "generation",
            "shards",
            "lost",
            "done",
            "total",
            "finished",
            "retryAfter",
            "ahead",
        ],
        "properties": {
            **_COUNTS,
            "shards": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "epoch", "start", "end"],
                    "properties": dict.fromkeys(("index", "epoch", "start", "end"), _INDEX),
                },
            },
            "lost": {**_INDEXES, "description": "What it holds and others have by now."},
            "finished": {"type": "boolean", "description": "Whether every shard is done."},
            "retryAfter": {"type": "integer", "description": "Seconds, if there is no shard now."},
            "ahead": {"type": "number", "description": "Seconds of work to ask for at once."},
        },
    },
    is_frequent=True,
    read=lambda asked: shards_asked.take(asked.below, asked.body),
    run=JobService.write_shards,
)
SHOW_SHARDS: Final = JobOperation(
    name="showShards",
    method="GET",
    resource="shards",
    below="dataset",
    verb="get",
    summary="The position in a data set, and how many shards each worker has.",
    message="successfully get shards",
    body=None,
    errors={422: "No worker has asked for shards of it."},
    data={
        "type": "object",
        "required": ["size", "after", "undone", "generation", "done", "total", "workers"],
        "properties": {
            **_PLAN,
            **_POSITION,
            **_COUNTS,
            "epoch": {"type": "integer", "description": "Of the first shard that is not done."},
            "workers": {"type": "object", "additionalProperties": _INDEX},
            "slowWorkers": {"type": "array", "items": {"type": "string"}},
        },
    },
    is_frequent=True,
    read=lambda asked: shards_asked.named(asked.below),
    run=JobService.shards,
)
RESTORE_SHARDS: Final = JobOperation(
    name="restoreShards",
    method="PUT",
    resource="shards",
    below="dataset",
    verb="update",
    summary="Go on from a position, such as that of a checkpoint.",
    message="successfully restore shards",
    body={
        "type": "object",
        "required": ["size", "after"],
        "properties": {**_PLAN, **_POSITION},
    },
    errors={422: "A value beyond its bound."},
    data={
        "type": "object",
        "required": ["generation"],
        "properties": {"generation": _COUNTS["generation"]},
    },
    is_frequent=True,
    read=lambda asked: shards_asked.restore(asked.below, asked.body),
    run=JobService.write_shards,
)
SCALING: Final = (ADD_REPLICAS, SET_REPLICAS, REMOVE_REPLICAS)
"""The operations that change the number of a job's pods."""
OPERATIONS: Final[tuple[JobOperation[Any], ...]] = (
    LIST_REPLICAS,
    ADD_REPLICAS,
    SET_REPLICAS,
    REMOVE_REPLICAS,
    LIST_TASKS,
    LIST_PODS,
    REPORT_PROFILINGS,
    SHOW_GROUP,
    SHOW_PROFILINGS,
    TAKE_SHARDS,
    SHOW_SHARDS,
    RESTORE_SHARDS,
)
