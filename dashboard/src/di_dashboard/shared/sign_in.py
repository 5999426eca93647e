"""Authentication by the token that a single sign-on adds to each request.

The dashboard has no permissions of its own: a request without a token sees nothing, and one with a
token no more than kubectl with the same token.
"""

from __future__ import annotations

import hmac
import math
import re
from hashlib import sha256
from typing import Final

from flask import Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.exceptions import TooManyRequests
from werkzeug.exceptions import Unauthorized as UnknownToken
from werkzeug.wrappers import Response as AnyResponse

from di_dashboard.pages.parts import Parts
from di_dashboard.shared.metrics import Metrics
from di_dashboard.shared.rejected_tokens import RejectedTokens, TooMany
from di_dashboard.shared.rights import Caller, Known
from di_dashboard.shared.sessions import Full, NothingToSee, Sessions
from di_dashboard.token_check import SAFE, check_form
from di_kube.errors import ApiError, Forbidden, Unauthorized

COOKIE: Final = "di-dashboard-namespace"
FORWARDED_TOKEN: Final = "X-Forwarded-Access-Token"
"""Header in which oauth2-proxy passes the token with --pass-access-token."""
_NO_TOKEN_OF_THIS_CLUSTER: Final = (
    "The token that came with the request is none of this cluster, or not any more."
)
_MOST_TOKEN: Final = 16 << 10
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ALL: Final = ""
_OPEN: Final = ("static", "healthz")
"""Endpoints that show nothing of the cluster."""
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class TokenDoor:
    """The sign-in of the shared dashboard.

    Args:
        secret: key of form tokens; of this process.
    """

    def __init__(
        self,
        sessions: Sessions,
        known: Known,
        rejected_tokens: RejectedTokens,
        *,
        secret: bytes,
        metrics: Metrics,
    ) -> None:
        self._rooms = sessions
        self._metrics = metrics
        self._strangers = rejected_tokens
        self._known = known
        self._secret = secret

    def form_token(self, caller: Caller) -> str:
        """Return the token that forms of a caller have to send back."""
        return hmac.new(self._secret, caller.key.encode(), sha256).hexdigest()

    def enter(self) -> Parts | AnyResponse | None:
        """See `SignIn`."""
        if request.endpoint in _OPEN:
            return None
        caller = _caller()
        if request.method not in SAFE:
            hosts = [request.host, request.headers.get("X-Forwarded-Host", "")]
            check_form(self.form_token(caller), hosts=hosts)
        address = request.remote_addr or ""
        try:
            if not self._known.knows(caller) and self._strangers.is_refused(caller, address):
                raise self._unknown()
            return self._entered(caller)
        except TooMany as error:
            self._metrics.refusals.labels("address").inc()
            raise TooManyRequests(
                f"Tokens that came from {address} were refused too often; those that are not known "
                "yet are looked at again in a moment.",
                retry_after=math.ceil(error.seconds),
            ) from error
        except Unauthorized:
            self._strangers.count(caller, address)
            raise self._unknown() from None
        except Forbidden as error:
            abort(403, f"The API server refuses even to say who you are: {error.message}")
        except ApiError as error:
            abort(503, f"The API server does not answer: {error.message or error.reason}")
        except NothingToSee as error:
            self._metrics.refusals.labels("rights").inc()
            return _question(
                error.user,
                wrong=f"You may not list the jobs of {request.cookies.get(COOKIE)}.",
                status=403,
            )
        except Full as error:
            self._metrics.refusals.labels("room").inc()
            abort(503, f"{error}.")

    def _unknown(self) -> UnknownToken:
        self._metrics.refusals.labels("token").inc()
        return UnknownToken(_NO_TOKEN_OF_THIS_CLUSTER)

    def _entered(self, caller: Caller) -> Parts | AnyResponse:
        if request.endpoint == "choose":
            return _chosen(self._known.of(caller, None).user)
        asked = request.cookies.get(COOKIE)
        if asked is not None and _NAMESPACE.fullmatch(asked):
            return self._rooms.enter(caller, asked)
        everywhere = self._known.of(caller, None)
        if everywhere.has_jobs:
            return self._rooms.enter(caller, None)
        home = _home(everywhere.user)
        if home and self._known.of(caller, home).has_jobs:
            return self._rooms.enter(caller, home)
        return _question(everywhere.user)


def add_choice(app: Flask) -> None:
    """Add the page for the choice of a namespace, and the health endpoint."""
    # Without a function: the sign-in responds before it would be called.
    app.add_url_rule("/namespace", "choose")
    app.add_url_rule("/healthz", "healthz", lambda: Response("ok\n", mimetype="text/plain"))


def _caller() -> Caller:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        token = request.headers.get(FORWARDED_TOKEN, "")
    token = token.strip()
    if not token:
        abort(
            401,
            "No token came with the request. A single sign-on in front of this page has to send "
            "the user's own one along (docs/how-to/dashboard.md); without one: di dashboard.",
        )
    if len(token) > _MOST_TOKEN or not token.isascii() or any(c.isspace() for c in token):
        abort(401, "What came with the request is no token.")
    return Caller(token)


def _chosen(user: str) -> AnyResponse:
    namespace = request.args.get("namespace")
    if namespace is None:
        return _question(user)
    if namespace != _ALL and not _NAMESPACE.fullmatch(namespace):
        wrong = f"{namespace[:80]} is no name of a namespace."
        return _question(user, wrong=wrong, status=400)
    answer = redirect(url_for("pages.jobs"))
    if namespace == _ALL:
        answer.delete_cookie(COOKIE, path=request.script_root or "/")
    else:
        answer.set_cookie(
            COOKIE,
            namespace,
            path=request.script_root or "/",
            httponly=True,
            samesite="Lax",
            secure=request.is_secure,
        )
    return answer


def _question(user: str, *, wrong: str = "", status: int = 200) -> AnyResponse:
    return Response(render_template("namespace.html", user=user, wrong=wrong), status)


def _home(user: str) -> str:
    """Return the namespace of a service account."""
    if not user.startswith(_SERVICE_ACCOUNT):
        return ""
    return user.removeprefix(_SERVICE_ACCOUNT).partition(":")[0]
