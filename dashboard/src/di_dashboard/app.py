"""The Flask application: pages, their protection, and error pages."""

from __future__ import annotations

import re
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from flask import Flask, render_template
from werkzeug.exceptions import HTTPException, TooManyRequests
from werkzeug.wrappers import Response

from di_api.wording import span
from di_cli.views.queue import starts_in
from di_cli.views.times import local
from di_dashboard.pages.actions import actions
from di_dashboard.pages.cluster import cluster_pages
from di_dashboard.pages.compare import compare_pages
from di_dashboard.pages.ended import kept_pages
from di_dashboard.pages.jobs import pages
from di_dashboard.pages.logs import log_pages
from di_dashboard.pages.parts import Parts, SignIn, parts_or_none, put
from di_dashboard.pages.stream import stream
from di_dashboard.pages.usage import usage_pages
from di_dashboard.token_check import FORM_FIELD, secure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
"""Pattern of the path prefix of all pages."""
MOST_BODY: Final = 64 << 10
"""Maximum bytes of a form."""


def create_app(sign_in: SignIn, path: str = "/") -> Flask:
    """Create the application.

    Args:
        path: prefix of all addresses, in the form of `PATH`. A proxy in front can remove it or keep
            it.
    """
    app = Flask("di_dashboard")
    below = path.rstrip("/")
    app.wsgi_app = _Below(below, app.wsgi_app)  # type: ignore[method-assign]  # Flask's own way
    app.config.update(
        SESSION_COOKIE_PATH=below or "/",
        # Key for flashed messages, which are lost with the process; so is the key.
        SECRET_KEY=secrets.token_bytes(32),
        MAX_CONTENT_LENGTH=MOST_BODY,
        SESSION_COOKIE_NAME="di-dashboard-said",
        SESSION_COOKIE_SAMESITE="Strict",
        TEMPLATES_AUTO_RELOAD=False,
    )
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters["span"] = span
    app.jinja_env.filters["local"] = local
    app.jinja_env.filters["starts"] = starts_in
    for blueprint in (
        *(pages, compare_pages, cluster_pages, actions, log_pages),
        *(kept_pages, usage_pages, stream),
    ):
        app.register_blueprint(blueprint)

    @app.before_request
    def enter() -> Response | None:
        found = sign_in.enter()
        if isinstance(found, Parts):
            put(found)
            return None
        return found

    app.after_request(secure)
    app.register_error_handler(HTTPException, _told)
    app.context_processor(_of_all_pages)
    return app


class _Below:
    """Moves the path prefix from a request's path to the application's name."""

    def __init__(self, below: str, app: WSGIApplication) -> None:
        self._below = below
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["SCRIPT_NAME"] = self._below
        found = environ["PATH_INFO"]
        if f"{found}/".startswith(f"{self._below}/"):
            environ["PATH_INFO"] = found.removeprefix(self._below) or "/"
        return self._app(environ, start_response)


def _of_all_pages() -> dict[str, Any]:
    here = parts_or_none()
    if here is None:
        return {"is_complete": True, "form_field": FORM_FIELD, "unread": {}}
    return {
        "place": here.place,
        "scope": here.namespace,
        "read_only": here.read_only,
        "has_history": here.kept.is_asked,
        "unread": here.cluster_cache.unread,
        "is_away": here.cluster_cache.is_away,
        "is_complete": here.cluster_cache.is_complete,
        "form_field": FORM_FIELD,
        "form_token": here.form_token,
        "user": here.user,
    }


def _told(error: HTTPException) -> tuple[str, int, dict[str, str]]:
    code = error.code or 500
    page = render_template("wrong.html", code=code, what=error.description, name=error.name)
    headers = {}
    if code == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests) and error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return page, code, headers
