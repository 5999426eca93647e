"""Requests from one pod of a job to another."""

from __future__ import annotations

import os
import threading
import time
import uuid

from di_orchestrator.errors import Gone, Left, Refused, Unreachable
from di_orchestrator.pods.proof import HEADER, proof, secret_of
from di_orchestrator.server.exchange import Answer, Clock
from di_orchestrator.server.transport import send_once

CALL_SECONDS = 10.0
"""Seconds for one request: a busy pod responds, one on a lost node never does."""
HEADER_IDENTITY = "DI-Request-Id"
"""Header with the same value in each repetition of a request."""
PATIENCE_SECONDS = 120.0
"""Seconds after which a lost pod has usually been replaced."""
RETRY_SECONDS = 0.25
MAX_ANSWER = 256 * 1024 * 1024
"""Maximum bytes of a response, which can contain the weights of a model."""
_FOR_NOW = (408, 429)
_OVER = 410


def call(
    method: str,
    url: str,
    body: bytes | None = None,
    *,
    seconds: float = PATIENCE_SECONDS,
    timeout: float = CALL_SECONDS,
    leaving: threading.Event | None = None,
    clock: Clock = time.monotonic,
) -> bytes:
    """Send a request to another pod of the job until it responds, since it can be starting or being
    replaced.

    The request proves to the other pod's `di.Hub` that it comes from the same job. It can arrive
    more than once; a hub that still computes the response does not compute it again. Proxies in
    the environment are ignored.

    Args:
        body: of the request.
        seconds: how long to retry.
        timeout: seconds of each request, until it is sent again.
        leaving: set when this pod has to leave (`di.leaving()`): after that one more request is
            sent at most.

    Raises:
        Gone: the requested thing is over (HTTP 410).
        Refused: the request was refused (HTTP 3xx and 4xx except 408 and 429).
        Left: this pod has to leave, and there was no response.
        Unreachable: there was no response in time.
    """
    left, ends = leaving or threading.Event(), clock() + seconds
    identity = {HEADER_IDENTITY: uuid.uuid4().hex}
    while True:
        found = send_once(
            method,
            url,
            seconds=min(timeout, seconds),
            most_bytes=MAX_ANSWER,
            data=body,
            headers={**identity, **_proven(method, url, body or b"")},
        )
        if not isinstance(found, Answer):
            said = found.reason
        elif 200 <= found.status < 300:
            return found.body
        elif found.status == _OVER:
            raise Gone(f"{method} {url}", found.status, found.message)
        elif found.status < 500 and found.status not in _FOR_NOW:
            raise Refused(f"{method} {url}", found.status, found.message)
        else:
            said = f"{method} {url}: {found.message} (HTTP {found.status})"
        if clock() >= ends:
            raise Unreachable(f"no answer within {seconds:g} s: {said}; does that pod run?")
        if left.wait(RETRY_SECONDS):
            raise Left(f"to leave, and without an answer: {said}")


def _proven(method: str, url: str, body: bytes) -> dict[str, str]:
    """Return the header that proves this pod's membership in the job; other jobs cannot use it."""
    secret = secret_of(os.environ)
    if secret is None:
        return {}
    import requests  # noqa: PLC0415  as in send_once

    try:
        # In the form that is sent: requests escapes characters that a URL must not have.
        target = requests.Request(method, url).prepare().path_url
    except (ValueError, requests.RequestException):
        # Sending the request reports the fault.
        return {}
    return {HEADER: proof(secret, method, target, body, now=time.time())}
