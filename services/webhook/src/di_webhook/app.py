"""The Flask application: routes, limits and metrics; other modules decide."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from flask import Flask, Response, request
from structlog.typing import FilteringBoundLogger
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from di_api.companions import CompanionKind
from di_service.serving.probe_server import Pages
from di_webhook import admission, conversion_review
from di_webhook.budget import Budget
from di_webhook.metrics import Metrics
from di_webhook.probes import probes
from di_webhook.review import CONVERT, Answer, too_large

MAX_BODY_BYTES: Final = 2 * 1536 * 1024 + 256 * 1024
"""Maximum bytes of a review: the old and the new object, each up to 1.5 MiB by etcd's defaults, and
the user's data.
"""


def create_app(
    *,
    metrics: Metrics,
    log: FilteringBoundLogger,
    pages: Pages,
    monotonic: Callable[[], float],
    companion_kinds: Sequence[CompanionKind] = (),
    speakers: Collection[str] = (),
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Flask:
    """Create the webhook's WSGI application.

    Args:
        metrics: counts admissions.
        log: gets one line per review.
        pages: for probes; they are served here too.
        monotonic: seconds, for latencies.
        companion_kinds: object kinds that jobs can bring along.
        speakers: users who change jobs on behalf of others, and name them.
        max_body_bytes: larger bodies get 413 before they are read.
    """
    app = Flask("di_webhook", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = max_body_bytes
    app.register_blueprint(probes(pages))

    def answer(webhook: str, decide: Callable[[bytes], Answer]) -> Response:
        start = monotonic()
        try:
            decision = decide(_read_body(max_body_bytes))
        except RequestEntityTooLarge:
            decision = too_large(max_body_bytes)
        metrics.admissions.labels(webhook, decision.outcome.value).inc()
        metrics.seconds.labels(webhook).observe(monotonic() - start)
        _report(log, webhook, decision)
        return _json(decision.status, decision.body)

    @app.post("/mutate")
    def mutate() -> Response:
        return answer("mutate", partial(admission.mutate, speakers=speakers))

    @app.post("/validate")
    def validate() -> Response:
        decide = partial(
            admission.validate,
            companions=companion_kinds,
            speakers=speakers,
            check=Budget().check,
        )
        return answer("validate", decide)

    @app.post(CONVERT)
    def convert() -> Response:
        return answer("convert", partial(conversion_review.answer, check=Budget().check))

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> Response:
        response = _json(error.code or 400, {"message": error.name})
        if "Allow" in (headers := dict(error.get_headers())):
            response.headers["Allow"] = headers["Allow"]
        return response

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Response:
        # Only a defect of ours gets here. 503 makes the API server apply the webhook's
        # failurePolicy: no job is admitted unchecked, or without CRD defaults.
        metrics.faults.inc()
        log.error("rule failed to run", path=request.path, error=repr(error)[:1000])
        return _json(503, {"message": "the webhook failed to decide"})

    return app


def _read_body(limit: int) -> bytes:
    body = request.get_data(cache=False)
    # A body of unknown length (chunked) is silently cut at the limit.
    if request.content_length is None and len(body) >= limit:
        raise RequestEntityTooLarge
    return body


def _report(log: FilteringBoundLogger, webhook: str, decision: Answer) -> None:
    # These are the usual outcomes, at hundreds a second; readers of the log look for refusals.
    write = log.debug if decision.outcome.is_the_rule else log.info
    write(
        "review answered",
        webhook=webhook,
        outcome=decision.outcome.value,
        operation=decision.operation,
        namespace=decision.namespace,
        name=decision.name,
        uid=decision.uid,
        message=decision.message,
    )


def _json(status: int, body: Any) -> Response:
    return Response(json.dumps(body), status=status, mimetype="application/json")
