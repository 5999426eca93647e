"""Health and metrics, for the kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST

from di_service.serving.probe_server import Page, Pages
from di_webhook.metrics import Metrics


def probe_pages(*, metrics: Metrics, is_ready: Callable[[], bool]) -> Pages:
    """Return the pages /healthz, /readyz and /metrics."""

    def readyz() -> Page:
        return Page(b"ok\n") if is_ready() else Page(b"no usable serving certificate\n", 503)

    return {
        "/healthz": lambda: Page(b"ok\n"),
        "/readyz": readyz,
        "/metrics": lambda: Page(metrics.expose(), content_type=CONTENT_TYPE_LATEST),
    }


def probes(pages: Pages) -> Blueprint:
    """Return the pages as routes of an application, for the port with TLS."""
    blueprint = Blueprint("probes", __name__)

    def answer(make: Callable[[], Page]) -> Response:
        page = make()
        return Response(page.body, status=page.status, content_type=page.content_type)

    for path, make in pages.items():
        name = path.removeprefix("/")
        blueprint.add_url_rule(path, endpoint=name, view_func=answer, defaults={"make": make})
    return blueprint
