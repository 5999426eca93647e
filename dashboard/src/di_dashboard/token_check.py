"""Authentication of the local dashboard by the token in its first URL.

The page acts as its user, so neither another user of the machine nor another page of the browser
must be able to use it.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode, urlsplit

from flask import Response, abort, redirect, request
from werkzeug.wrappers import Response as AnyResponse

SECONDS: Final = 30 * 24 * 3600
"""Seconds for which a browser keeps the token; the process rarely lives so long."""
PARAMETER: Final = "token"
FORM_FIELD: Final = "csrf"
SAFE: Final = ("GET", "HEAD")


class TokenCheck:
    """Accepts requests with the token, first in the URL and later in a cookie.

    Args:
        token: created by each process.
        hosts: names of this server, with port: a page of another name that resolves to this machine
            is refused (DNS rebinding).
        cookie: its name, which contains the port because browsers separate cookies only by host.
    """

    def __init__(self, *, token: str, hosts: Collection[str], cookie: str) -> None:
        self._token = token
        self._hosts = frozenset(hosts)
        self._cookie = cookie

    @property
    def form_token(self) -> str:
        """Return the value that each form has to send back."""
        return hmac.new(self._token.encode(), b"form", sha256).hexdigest()

    def check(self) -> AnyResponse | None:
        """Check a request; None accepts it."""
        if request.host not in self._hosts:
            abort(403, f"{request.host} is no name of this page")
        if request.method in SAFE and PARAMETER in request.args:
            return self._enter(request.args[PARAMETER])
        if not _same(request.cookies.get(self._cookie, ""), self._token):
            abort(401, "Open the address that di dashboard printed: it has the token in it.")
        if request.method not in SAFE:
            self._check_form()
        return None

    def _enter(self, shown: str) -> AnyResponse:
        if not _same(shown, self._token):
            abort(401, "The token is of another di dashboard; open the address that it printed.")
        rest = [pair for pair in request.args.items(multi=True) if pair[0] != PARAMETER]
        # Only the path: a target that begins with // would be another host.
        path = f"{request.script_root}/{request.path.lstrip('/')}"
        answer = redirect(f"{path}?{urlencode(rest)}" if rest else path)
        answer.set_cookie(
            self._cookie,
            self._token,
            max_age=SECONDS,
            path=request.script_root or "/",
            httponly=True,
            # A local file leads to the page: a browser does not send a stricter cookie then.
            samesite="Lax",
            secure=request.is_secure,
        )
        return answer

    def _check_form(self) -> None:
        check_form(self.form_token, hosts=[request.host])


def check_form(form_token: str, *, hosts: Collection[str]) -> None:
    """Refuse a form that was not shown to this user by this server.

    Args:
        hosts: names by which the browser can know this server.
    """
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc not in hosts:
        abort(403, "The form is of another page.")
    if not _same(request.form.get(FORM_FIELD, ""), form_token):
        abort(403, "The form is too old; go back and load the page again.")


def secure(response: Response) -> Response:
    """Add security headers: only our own scripts, no other host, no frames, no caching."""
    response.headers.setdefault(
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'",
    )
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    response.headers.setdefault("Referrer-Policy", "same-origin")
    response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
