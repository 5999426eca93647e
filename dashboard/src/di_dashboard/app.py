"""The application: pages, what they are guarded by, and what goes wrong, in words."""

from __future__ import annotations

import secrets
from typing import Any, Final

from flask import Flask, render_template
from werkzeug.exceptions import HTTPException

from di_api.wording import span
from di_cli.views.queue import starts_in
from di_cli.views.times import local
from di_dashboard.actions import actions
from di_dashboard.cluster_pages import cluster_pages
from di_dashboard.gate import FORM_FIELD, secure
from di_dashboard.kept_pages import kept_pages
from di_dashboard.log_pages import log_pages
from di_dashboard.pages import pages
from di_dashboard.parts import EXTENSION, Parts, parts
from di_dashboard.stream import stream

MOST_BODY: Final = 64 << 10
"""Bytes of a form."""


def create_app(found: Parts) -> Flask:
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
    app.extensions[EXTENSION] = found
    for blueprint in (pages, cluster_pages, actions, log_pages, kept_pages, stream):
        app.register_blueprint(blueprint)
    app.before_request(found.gate.check)
    app.after_request(secure)
    app.register_error_handler(HTTPException, _told)
    app.context_processor(_of_all_pages)
    return app


def _of_all_pages() -> dict[str, Any]:
    here = parts()
    return {
        "place": here.place,
        "scope": here.namespace,
        "read_only": here.read_only,
        "has_history": here.kept.is_asked,
        "unread": here.world.unread,
        "is_away": here.world.is_away,
        "is_complete": here.world.is_complete,
        "form_field": FORM_FIELD,
        "form_token": here.gate.form_token,
    }


def _told(error: HTTPException) -> tuple[str, int]:
    code = error.code or 500
    return render_template("wrong.html", code=code, what=error.description, name=error.name), code
