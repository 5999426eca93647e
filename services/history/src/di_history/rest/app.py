"""The WSGI application: routes, and responses for problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
import structlog
from flask import Flask, Response, g, request
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from di_api.wording import describe
from di_history.metrics import Metrics
from di_history.records import Millis
from di_history.rest.access import AWAY_SECONDS, Access, Caller
from di_history.rest.query import (
    checked_name,
    flag,
    kinds_of,
    number_of,
    only,
    page_after,
    time_of,
    wanted_jobs,
)
from di_history.rest.usage import UsageAnswers, query_of
from di_history.rest.views import all_samples, all_shown, shown
from di_history.store.reader import MOST_SAMPLES, Reader
from di_history.whole_logs import StorageError, WholeLogs
from di_service.problems import Busy, Malformed, Problem

PREFIX: Final = "/v1"
_JOB: Final = f"{PREFIX}/jobs/<namespace>/<name>"
_LONGEST_SPAN: Final = 31 * 24 * 3_600_000
_UNROUTED: Final = "none"
_log = structlog.get_logger()
Object = dict[str, Any]


class NotKept(Problem):
    """The history has nothing with that name."""

    status = 404


class Handlers:
    """The handlers of all paths."""

    def __init__(
        self,
        *,
        reader: Reader,
        usage: UsageAnswers,
        whole_logs: WholeLogs | None,
        access: Access,
        is_ready: Callable[[], bool],
        now: Callable[[], Millis],
    ) -> None:
        self._reader = reader
        self._usage = usage
        self._now = now
        self._whole_logs = whole_logs
        self._access = access
        self._is_ready = is_ready

    def jobs(self) -> Response:
        """Return a page of jobs, the newest first, ended and deleted ones included."""
        wanted = wanted_jobs(request.args)
        self._access.admit_to_all(_caller(), wanted.namespace)
        self._check_ready()
        found = self._reader.jobs(wanted)
        answer: Object = {"jobs": all_shown(found)}
        if len(found) == wanted.limit:
            answer["next"] = page_after(found[-1]["created"], found[-1]["uid"])
        return _json(answer)

    def job(self, namespace: str, name: str) -> Response:
        """Return everything about one job that fits on a page."""
        only(request.args, "uid", "kinds")
        kinds = kinds_of(request.args)
        found = self._find(namespace, name)
        uid = found["uid"]
        return _json(
            {
                "job": shown(found),
                "timeline": all_shown(self._reader.timeline(uid, kinds=kinds)),
                "revisions": all_shown(self._reader.revisions(uid)),
                "placements": all_shown(self._reader.placements(uid)),
                "logs": all_shown(self._reader.logs(uid)),
            }
        )

    def series(self, namespace: str, name: str) -> Response:
        """Return the job's reports over time."""
        only(request.args, "uid", "since", "until", "limit")
        since, until = time_of(request.args, "since"), time_of(request.args, "until")
        most = number_of(request.args, "limit", default=MOST_SAMPLES, most=MOST_SAMPLES)
        found = self._find(namespace, name)
        samples = self._reader.samples(found["uid"], since=since, until=until, most=most)
        return _json({"job": shown(found), "samples": all_samples(samples)})

    def revision(self, namespace: str, name: str, number: int) -> Response:
        """Return the job's manifest at one revision."""
        only(request.args, "uid")
        found = self._find(namespace, name)
        manifest = self._reader.manifest(found["uid"], number) if number < 2**63 else None
        if manifest is None:
            raise NotKept(f"no revision {number} of job {namespace}/{name} is kept")
        return _json(manifest)

    def log(self, namespace: str, name: str, pod: str) -> Response:
        """Return the log tail of a deleted pod, or its whole log, as text."""
        only(request.args, "uid", "container", "whole")
        is_whole = flag(request.args, "whole")
        container = request.args.get("container")
        checked_name(pod, "pod")
        if container is not None:
            checked_name(container, "container")
        self._access.admit_to_logs(_caller(), namespace)
        found = self._find(namespace, name)
        if is_whole:
            return self._whole_log(found["uid"], pod, container)
        log = self._reader.log(found["uid"], pod, container)
        if log is None:
            raise NotKept(f"no log of pod {pod} of job {namespace}/{name} is kept")
        if log["text"] is None:
            raise NotKept(f"the log of pod {pod} is not kept: {log['note']}")
        return _text(log["text"])

    def _whole_log(self, job: str, pod: str, container: str | None) -> Response:
        if self._whole_logs is None:
            raise NotKept("whole logs are not kept here, only their ends")
        log = self._reader.whole_log(job, pod, container)
        key, note = (log["whole_key"], log["whole_note"]) if log else (None, None)
        if key is None:
            raise NotKept(f"the whole log of pod {pod} is not kept" + (f": {note}" if note else ""))
        try:
            return _text(self._whole_logs.read(key))
        except KeyError:
            raise NotKept(f"the whole log of pod {pod} is not in the storage any more") from None
        except StorageError as error:
            _log.warning("the object storage failed a request", error=str(error))
            raise Busy(
                "the object storage cannot be read now, try again", retry_after=AWAY_SECONDS
            ) from error

    def placements(self) -> Response:
        """Return the pods and their nodes in a time range."""
        only(request.args, "namespace", "since", "until")
        since, until = time_of(request.args, "since"), time_of(request.args, "until")
        if since is None or until is None or not 0 < until - since <= _LONGEST_SPAN:
            raise Malformed("since and until must be given, at most 31 days apart")
        namespace = request.args.get("namespace")
        if namespace is not None:
            checked_name(namespace, "namespace")
        self._access.admit_to_all(_caller(), namespace)
        self._check_ready()
        found = self._reader.placements_between(since, until, namespace)
        return _json({"placements": all_shown(found)})

    def usage(self) -> Response:
        """Return the GPU-hours that pods held in a time range, by group."""
        query = query_of(request.args, self._now())
        self._access.admit_to_all(_caller(), query.asked.namespace)
        self._check_ready()
        return _json(self._usage.answer(query))

    def _find(self, namespace: str, name: str) -> Object:
        """Return the job of the path and `uid`, if the caller can see it."""
        uid = request.args.get("uid")
        checked_name(namespace, "namespace")
        checked_name(name, "name")
        if uid is not None:
            checked_name(uid, "uid")
        # Before the job is read, so that a refusal reveals nothing about it.
        self._access.admit_to_job(_caller(), namespace, name)
        self._check_ready()
        found = self._reader.job(namespace, name, uid)
        if found is None:
            raise NotKept(f"nothing is kept of a job {namespace}/{name}")
        return found

    def _check_ready(self) -> None:
        if not self._is_ready():
            raise Busy("the database is not ready yet, try again", retry_after=AWAY_SECONDS)


def create_app(
    *,
    reader: Reader,
    usage: UsageAnswers,
    whole_logs: WholeLogs | None,
    access: Access,
    is_ready: Callable[[], bool],
    now: Callable[[], Millis],
    metrics: Metrics,
    clock: Callable[[], float],
) -> Flask:
    """Create the application; `is_ready` returns whether the tables exist, `now` milliseconds."""
    app = Flask("di_history", static_folder=None)
    handlers = Handlers(
        reader=reader,
        usage=usage,
        whole_logs=whole_logs,
        access=access,
        is_ready=is_ready,
        now=now,
    )
    routes: dict[str, Callable[..., Response]] = {
        f"{PREFIX}/jobs": handlers.jobs,
        _JOB: handlers.job,
        f"{_JOB}/series": handlers.series,
        f"{_JOB}/revisions/<int:number>": handlers.revision,
        f"{_JOB}/logs/<pod>": handlers.log,
        f"{PREFIX}/placements": handlers.placements,
        f"{PREFIX}/usage": handlers.usage,
    }
    for path, view in routes.items():
        app.add_url_rule(path, endpoint=view.__name__, view_func=view, methods=["GET"])
    _map_problems(app)
    _measure(app, metrics, clock)
    return app


def failure_body(message: str) -> bytes:
    """Return the body of a failure."""
    return orjson.dumps({"message": message.encode("utf-8", "replace").decode()})


def _caller() -> Caller:
    return Caller(
        authorization=request.headers.get("Authorization"),
        # Never X-Forwarded-For: any client can send it.
        address=request.remote_addr or "",
        encrypted=request.is_secure,
    )


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), mimetype="application/json")


def _text(content: bytes | Iterator[bytes]) -> Response:
    response = Response(content, mimetype="text/plain")
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _failure(status: int, message: str) -> Response:
    return Response(failure_body(message), status=status, mimetype="application/json")


def _map_problems(app: Flask) -> None:
    def on_problem(found: Problem) -> Response:
        response = _failure(found.status, found.message)
        response.headers.update(found.headers)
        return response

    def on_database(error: SQLAlchemyError) -> Response:
        _log.warning("the database failed a request", error=describe(error))
        return on_problem(
            Busy("the database cannot be read now, try again", retry_after=AWAY_SECONDS)
        )

    def on_http(error: HTTPException) -> Response:
        status = error.code or 500
        response = _failure(status, "no such path" if status == 404 else error.name)
        if status == 405:
            response.headers["Allow"] = "GET, HEAD"
        return response

    def on_bug(error: Exception) -> Response:
        _log.exception("request failed", operation=request.endpoint or _UNROUTED, exc_info=error)
        return _failure(500, "internal error, see the log of di-history")

    app.register_error_handler(Problem, on_problem)
    app.register_error_handler(SQLAlchemyError, on_database)
    app.register_error_handler(HTTPException, on_http)
    app.register_error_handler(Exception, on_bug)


def _measure(app: Flask, metrics: Metrics, clock: Callable[[], float]) -> None:
    def begin() -> None:
        g.began = clock()

    def end(response: Response) -> Response:
        operation = request.endpoint or _UNROUTED
        metrics.requests.labels(operation, str(response.status_code)).inc()
        metrics.seconds.labels(operation).observe(clock() - g.began)
        return response

    app.before_request(begin)
    app.after_request(end)
