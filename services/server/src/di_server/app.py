"""The WSGI application: routes from the tables of operations, and responses for problems."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from flask import Flask, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter

from di_kube.errors import ApiError
from di_server import openapi
from di_server.coordination import operations as coordination_operations
from di_server.coordination.handlers import CoordinationHandlers
from di_server.deadline import Clock
from di_server.jobs import operations as job_operations
from di_server.jobs.handlers import JobHandlers
from di_server.members import exchange
from di_server.members import operations as member_operations
from di_server.members.handlers import MemberHandlers
from di_server.members.operations import EXCHANGE
from di_server.metrics import Metrics
from di_server.model.references import JobRef
from di_server.probes import Probes
from di_server.problems import HeadersTooLarge, Problem, from_api_error
from di_server.rest import envelope
from di_server.rest.deferred import Deferred
from di_server.rest.incoming import TRACE, Incoming, receive, receive_for
from di_server.rest.operation import Operation
from di_server.rest.tagged import Tagged
from di_service.serving.later import LATER, Later, Wake
from di_service.spans import Tracing, trace_id
from di_service.tracing import OFF

_MAX_HEADERS: Final = 16 * 1024
_UNROUTED: Final = "none"
_TRACED: Final = frozenset(each.name for each in job_operations.SCALING)
_LONGEST_JOB: Final = 320
"""Maximum length of a job id in a span; a valid id is shorter."""
_UNIMPLEMENTED: Final = tuple(f"{prefix}/" for prefix in coordination_operations.PREFIXES)
"""Paths below which an unknown method gets 501, which the clients of that API expect."""
_log = structlog.get_logger()
_Handle = Callable[[JobRef, Incoming], object]
"""Returns the data of the response."""


_BELOW: Final = "|".join(
    sorted(
        each.resource
        for each in (*job_operations.OPERATIONS, *member_operations.OPERATIONS)
        if each.below
    )
)
"""Resources whose paths have a further part."""
_WHOLE_ID: Final = r"(?s:(?:job/)?[^/.]*\.[^/]*|(?!job/)[^/]+/[^/]+|job/[^/]+/[^/]+)"
"""Pattern of a whole job id."""


class _JobId(BaseConverter):
    """Path converter for everything up to the resource, invalid ids included, which get a 400 with
    the rule.

    It excludes paths that name a task's group, whatever the task's name, or a member.
    """

    regex = rf"(?!{_WHOLE_ID}/(?:{_BELOW})/[^/]+\Z)(?s:.+?)"
    part_isolating = False


class _WholeJobId(BaseConverter):
    """Path converter for a valid id, for paths with a part after the resource.

    `rl/group/replicas` are the replicas of a job called group, not the task `replicas` of a job
    `rl`.
    """

    regex = _WHOLE_ID
    part_isolating = False


def create_app(
    *,
    jobs: JobHandlers,
    members: MemberHandlers,
    coordination: CoordinationHandlers,
    probes: Probes,
    metrics: Metrics,
    clock: Clock,
    traces: Tracing = OFF,
) -> Flask:
    """Create the application; requests that scale jobs are spans of `traces`."""
    app = Flask("di_server", static_folder=None)
    app.url_map.converters["job_id"] = _JobId
    app.url_map.converters["whole_job_id"] = _WholeJobId

    of_jobs: list[tuple[Operation, _Handle]] = [
        *((each, partial(jobs.handle, each)) for each in job_operations.OPERATIONS),
        *((each, partial(members.handle, each)) for each in member_operations.OPERATIONS),
    ]
    for operation, handle in of_jobs:
        path = f"{job_operations.PREFIX}/{_job_path(operation)}"
        _route(app, path, operation.name, operation.method, partial(_answer, operation, handle))
    _route(
        app,
        exchange.PATH,
        EXCHANGE.name,
        EXCHANGE.method,
        lambda: envelope.success(EXCHANGE.message, members.exchange(receive(request, EXCHANGE))),
    )
    for each in coordination_operations.OPERATIONS:
        view = partial(_answer_coordinator, each, coordination)
        for prefix in coordination_operations.PREFIXES:
            _route(app, f"{prefix}/{each.resource}", each.name, each.method, view)
    document = openapi.document()
    _route(app, "/openapi.json", "openapi", "GET", lambda: jsonify(document))
    _route(app, "/healthz", "healthz", "GET", probes.healthz)
    _route(app, "/readyz", "readyz", "GET", probes.readyz)
    _route(app, "/metrics", "metrics", "GET", probes.metrics)

    _map_problems(app)
    _measure(app, metrics, clock, traces)
    app.before_request(_check_headers)
    return app


def _job_path(operation: Operation) -> str:
    if operation.below:
        return f"<whole_job_id:job>/{operation.resource}/<below>"
    return f"<job_id:job>/{operation.resource}"


def _route(app: Flask, path: str, name: str, method: str, view: Callable[..., Response]) -> None:
    app.add_url_rule(
        path, endpoint=name, view_func=view, methods=[method], provide_automatic_options=False
    )


def _answer(operation: Operation, handle: _Handle, job: str, below: str = "") -> Response:
    data = handle(*receive_for(job, request, operation, below))
    if isinstance(data, Tagged):
        return envelope.tagged(operation.message, data, request)
    if not isinstance(data, Deferred):
        return envelope.success(operation.message, data)

    def subscribe(wake: Wake) -> Callable[[], None]:
        return data.subscribe(lambda found: wake(envelope.success_body(operation.message, found)))

    request.environ[LATER] = Later(data.seconds, subscribe)
    return envelope.success(operation.message, data.data)


def _answer_coordinator(operation: Operation, handlers: CoordinationHandlers) -> Response:
    data = handlers.handle(operation, receive(request, operation))
    return envelope.success(operation.message, data)


def _check_headers() -> None:
    # The HTTP server limits each header and their number; this limits their sum.
    if sum(len(name) + len(value) + 4 for name, value in request.headers) > _MAX_HEADERS:
        raise HeadersTooLarge(f"the headers must not be longer than {_MAX_HEADERS} bytes")


def _map_problems(app: Flask) -> None:
    def on_api_error(error: ApiError) -> Response:
        found = from_api_error(error)
        if found.status == 503:
            _log.warning("API server failed a request", error=str(error))
        return envelope.problem(found)

    def on_http(error: HTTPException) -> Response:
        status = error.code or 500
        match error:
            case MethodNotAllowed() if request.path.startswith(_UNIMPLEMENTED):
                return envelope.failure(501, f"{request.method} not implemented")
            case MethodNotAllowed():
                allowed = ", ".join(sorted(error.valid_methods or ()))
                response = envelope.failure(status, f"this path knows only {allowed}")
                response.headers["Allow"] = allowed
                return response
            case NotFound():
                return envelope.failure(status, "no such path; see /openapi.json")
            case _:
                return envelope.failure(status, error.description or error.name)

    def on_bug(error: Exception) -> Response:
        _log.exception("request failed", operation=request.endpoint or _UNROUTED, exc_info=error)
        return envelope.failure(500, "internal error, see the log of di-server")

    app.register_error_handler(Problem, envelope.problem)
    app.register_error_handler(ApiError, on_api_error)
    app.register_error_handler(HTTPException, on_http)
    app.register_error_handler(Exception, on_bug)


def _measure(app: Flask, metrics: Metrics, clock: Clock, traces: Tracing) -> None:
    def begin() -> None:
        g.began = clock()
        if request.endpoint in _TRACED:
            job = str((request.view_args or {}).get("job"))[:_LONGEST_JOB]
            parent = request.headers.get("traceparent")
            g.span = traces.start(request.endpoint, parent=parent, attributes={"dijob": job})
            request.environ[TRACE] = g.span.traceparent

    def end(response: Response) -> Response:
        operation = request.endpoint or _UNROUTED
        metrics.requests.labels(operation, str(response.status_code)).inc()
        exemplar = None
        if "span" in g:
            status = response.status_code
            g.span.end(error=f"status {status}" if status >= 400 else "")
            if (traceparent := g.span.traceparent) is not None:
                exemplar = {"trace_id": trace_id(traceparent)}
        metrics.seconds.labels(operation).observe(clock() - g.began, exemplar)
        return response

    app.before_request(begin)
    app.after_request(end)
