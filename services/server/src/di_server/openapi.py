"""The OpenAPI document, generated from the tables of operations."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any, Final

from di_api.dns_names import MAX_LABEL
from di_api.names import (
    COORDINATED_VERSIONS,
)
from di_server.coordination import operations as coordination_operations
from di_server.jobs.operations import OPERATIONS, PREFIX
from di_server.members import operations as member_operations
from di_server.rest.operation import Operation

_LABEL: Final = {
    "type": "string",
    "maxLength": MAX_LABEL,
    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
}
_ID: Final = {
    "type": "string",
    "description": "<namespace>.<name> or <namespace>.<name>.<generation>",
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[0-9]{1,19})?$",
}
_FORMS: Final = (
    ("/{id}", "", ("id",)),
    ("/job/{id}", "OfJob", ("id",)),
    ("/{namespace}/{name}", "ByName", ("namespace", "name")),
    ("/job/{namespace}/{name}", "OfJobByName", ("namespace", "name")),
)
"""The forms of a job in a path: template, suffix of the operation ids, parameters."""
_SUFFIXES: Final = tuple(version.capitalize() for version in COORDINATED_VERSIONS)
"""Suffixes of the operation ids of coordinators, which are served under several versions."""
_ERRORS: Final = {
    400: "The id, a header or the body is malformed; the message has the rule.",
    401: "No token, or one that does not hold.",
    403: "This caller may not do this to this job.",
    404: "No such job, coordinator or AggregatorConfig.",
    405: "The path knows other methods.",
    408: "The body did not arrive in time.",
    413: "The body is longer than 64 KiB.",
    429: "Too many requests of the job, or refusals of the address; see Retry-After.",
    431: "The headers are longer than 16 KiB.",
    503: "The API server is away; see Retry-After.",
}
_UNIMPLEMENTED: Final = {501: "Coordinators have no such method."}
"""Response instead of 405, which the clients of that API expect."""
_WRITE_ERRORS: Final = {
    409: "The job is finished, suspended or being deleted, or the key stands for another request.",
    422: "Past a bound the message names.",
}


def document() -> dict[str, Any]:
    """Return the whole document, OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for operation in (*OPERATIONS, *member_operations.OPERATIONS):
        for template, suffix, names in _FORMS:
            below = (operation.below,) if operation.below else ()
            end = "".join(f"/{{{name}}}" for name in below)
            path = paths.setdefault(f"{PREFIX}{template}/{operation.resource}{end}", {})
            path["parameters"] = [
                {"$ref": f"#/components/parameters/{name}"} for name in (*names, *below)
            ]
            path[operation.method.lower()] = _operation(operation, suffix)
    for each in coordination_operations.OPERATIONS:
        for prefix, suffix in zip(coordination_operations.PREFIXES, _SUFFIXES, strict=True):
            path = paths.setdefault(f"{prefix}/{each.resource}", {})
            path[each.method.lower()] = _operation(each, suffix, _UNIMPLEMENTED)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "di-server",
            "version": importlib.metadata.version("di-server"),
            "description": "Scaling, addresses, members and profilings of DIJobs; coordinators.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "parameters": {
                "id": _parameter("id", _ID),
                "namespace": _parameter("namespace", _LABEL),
                "name": _parameter("name", _LABEL),
                "task": _parameter("task", _LABEL),
                "pod": _parameter("pod", _LABEL),
                "dataset": _parameter("dataset", _LABEL),
                "idempotencyKey": {
                    "name": "Idempotency-Key",
                    "in": "header",
                    "description": "The same key and body again get the first answer.",
                    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
                },
                "ifNoneMatch": {
                    "name": "If-None-Match",
                    "in": "header",
                    "description": "ETag of an earlier answer.",
                    "schema": {"type": "string"},
                },
            },
            "responses": {"Refused": _response("The request is refused.", 1, {"type": "null"})},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(
    operation: Operation, suffix: str, further: Mapping[int, str] = {}
) -> dict[str, Any]:
    writes = operation.body is not None
    of_kind = {**_ERRORS, **(_WRITE_ERRORS if writes else {}), **further}
    errors = sorted({**of_kind, **operation.errors}.items())
    parameters = [_query(key) for key in operation.query]
    result: dict[str, Any] = {
        "operationId": f"{operation.name}{suffix}",
        "summary": operation.summary,
        "responses": {
            "200": _response("Done.", 0, operation.data),
            **{
                str(status): {"$ref": "#/components/responses/Refused", "description": text}
                for status, text in errors
            },
        },
    }
    if writes:
        result["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": operation.body}},
        }
    if operation.is_tagged:
        parameters.append({"$ref": "#/components/parameters/ifNoneMatch"})
        result["responses"]["304"] = {"description": "The caller has it already."}
    if operation.idempotent:
        parameters.append({"$ref": "#/components/parameters/idempotencyKey"})
    if parameters:
        result["parameters"] = parameters
    return result


def _query(key: str) -> dict[str, Any]:
    return {"name": key, "in": "query", "required": False, "schema": {"type": "string"}}


def _parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _response(description: str, code: int, data: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["success", "code", "message", "data"],
        "properties": {
            "success": {"const": code == 0},
            "code": {"const": code},
            "message": {"type": "string"},
            "data": data,
        },
    }
    return {"description": description, "content": {"application/json": {"schema": schema}}}
