"""The application: pages, what they are guarded by, and what goes wrong, in words."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Any, Final

from flask import Flask, render_template
from werkzeug.exceptions import HTTPException, TooManyRequests
from werkzeug.wrappers import Response

from di_api.wording import span
from di_cli.views.queue import starts_in
from di_cli.views.times import local
from di_dashboard.actions import actions
from di_dashboard.cluster_pages import cluster_pages
from di_dashboard.gate import FORM_FIELD, secure
from di_dashboard.kept_pages import kept_pages
from di_dashboard.log_pages import log_pages
from di_dashboard.pages import pages
from di_dashboard.parts import Door, Parts, parts_or_none, put
from di_dashboard.stream import stream

MOST_BODY: Final = 64 << 10
"""Bytes of a form."""


def create_app(door: Door) -> Flask:
    """Put it together."""
    app = Flask("di_dashboard")
    app.config.update(
        # What is flashed is signed with it; it is gone with the process, and so are they.
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
    for blueprint in (pages, cluster_pages, actions, log_pages, kept_pages, stream):
        app.register_blueprint(blueprint)

    @app.before_request
    def enter() -> Response | None:
        found = door.enter()
        if isinstance(found, Parts):
            put(found)
            return None
        return found

    app.after_request(secure)
    app.register_error_handler(HTTPException, _told)
    app.context_processor(_of_all_pages)
    return app


def _of_all_pages() -> dict[str, Any]:
    here = parts_or_none()
    if here is None:
        return {"is_complete": True, "form_field": FORM_FIELD, "unread": {}}
    return {
        "place": here.place,
        "scope": here.namespace,
        "read_only": here.read_only,
        "has_history": here.kept.is_asked,
        "unread": here.world.unread,
        "is_away": here.world.is_away,
        "is_complete": here.world.is_complete,
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
