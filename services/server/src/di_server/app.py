"""The WSGI application: routes from the table of operations, and problems to answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from flask import Flask, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter

from di_api.kube.errors import ApiError
from di_server import coordinated_operations, envelope, openapi
from di_server.deadline import Clock
from di_server.handlers.coordination import CoordinationHandlers
from di_server.handlers.jobs import JobHandlers
from di_server.handlers.probes import Probes
from di_server.metrics import Metrics
from di_server.operations import OPERATIONS, PREFIX, Operation
from di_server.problems import HeadersTooLarge, Problem, from_api_error

_MAX_HEADERS: Final = 16 * 1024
_UNROUTED: Final = "none"
_UNIMPLEMENTED: Final = tuple(f"{prefix}/" for prefix in coordinated_operations.PREFIXES)
"""Below these a method that is not known is 501, as the clients of that API were told."""
_log = structlog.get_logger()


class _JobId(BaseConverter):
    """Everything up to the resource, also what is no id: that gets a 400 with the rule."""

    regex = "(?s:.+?)"
    part_isolating = False


def create_app(
    *,
    jobs: JobHandlers,
    coordination: CoordinationHandlers,
    probes: Probes,
    metrics: Metrics,
    clock: Clock,
) -> Flask:
    """Put the application together."""
    app = Flask("di_server", static_folder=None)
    app.url_map.converters["job_id"] = _JobId

    for operation in OPERATIONS:
        _route(
            app,
            f"{PREFIX}/<job_id:job>/{operation.resource}",
            operation.name,
            operation.method,
            partial(_handle, jobs, operation),
        )
    for operation in coordinated_operations.OPERATIONS:
        view = partial(_handle_coordinated, coordination, operation)
        for prefix in coordinated_operations.PREFIXES:
            path = f"{prefix}/{operation.resource}"
            _route(app, path, operation.name, operation.method, view)
    document = openapi.document()
    _route(app, "/openapi.json", "openapi", "GET", lambda: jsonify(document))
    _route(app, "/healthz", "healthz", "GET", probes.healthz)
    _route(app, "/readyz", "readyz", "GET", probes.readyz)
    _route(app, "/metrics", "metrics", "GET", probes.metrics)

    _answer_problems(app)
    _measure(app, metrics, clock)
    app.before_request(_check_headers)
    return app


def _route(app: Flask, path: str, name: str, method: str, view: Callable[..., Response]) -> None:
    app.add_url_rule(
        path, endpoint=name, view_func=view, methods=[method], provide_automatic_options=False
    )


def _handle(handlers: JobHandlers, operation: Operation, job: str) -> Response:
    return handlers.handle(operation, job, request)


def _handle_coordinated(handlers: CoordinationHandlers, operation: Operation) -> Response:
    return handlers.handle(operation, request)


def _check_headers() -> None:
    # The HTTP server bounds each header and their number; this is the bound on their sum.
    if sum(len(name) + len(value) + 4 for name, value in request.headers) > _MAX_HEADERS:
        raise HeadersTooLarge(f"the headers must not be longer than {_MAX_HEADERS} bytes")


def _answer_problems(app: Flask) -> None:
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


def _measure(app: Flask, metrics: Metrics, clock: Clock) -> None:
    def begin() -> None:
        g.began = clock()

    def end(response: Response) -> Response:
        operation = request.endpoint or _UNROUTED
        metrics.requests.labels(operation, str(response.status_code)).inc()
        metrics.seconds.labels(operation).observe(clock() - g.began)
        return response

    app.before_request(begin)
    app.after_request(end)
