"""Requests from one pod of a job to another."""

from __future__ import annotations

import os
import threading
import time

import requests

from di_orchestrator.errors import Gone, Left, Refused, Unreachable
from di_orchestrator.pods.proof import HEADER, proof, secret_of
from di_orchestrator.server.exchange import Answer, Clock
from di_orchestrator.server.transport import send_once

CALL_SECONDS = 10.0
"""For one request: a pod that is busy answers, one whose node is lost never does."""
PATIENCE_SECONDS = 120.0
"""By then a lost pod has usually been replaced."""
RETRY_SECONDS = 0.25
MAX_ANSWER = 256 * 1024 * 1024
"""Bytes that are read of an answer: the weights of a model may be among them."""
_FOR_NOW = (408, 429)
_OVER = 410


def call(
    method: str,
    url: str,
    body: bytes | None = None,
    *,
    seconds: float = PATIENCE_SECONDS,
    leaving: threading.Event | None = None,
    clock: Clock = time.monotonic,
) -> bytes:
    """Ask another pod of the job until it answers: it may be starting, or being replaced.

    It proves to the other's `di.Hub` that it is of the same job. What is sent may arrive more than
    once. Proxies of the environment are not used.

    Args:
        body: what is sent to it.
        seconds: how long to ask; each request has ten seconds.
        leaving: set when this pod is to leave (`di.leaving()`): there is one request more at most.

    Raises:
        Gone: it says that this is over (HTTP 410).
        Refused: it does not take the request (HTTP 3xx and 4xx but 408 and 429).
        Left: this pod is to leave, and there was no answer.
        Unreachable: there was no answer in time.
    """
    left, ends = leaving or threading.Event(), clock() + seconds
    while True:
        found = send_once(
            method,
            url,
            seconds=min(CALL_SECONDS, seconds),
            most_bytes=MAX_ANSWER,
            data=body,
            headers=_proven(method, url, body or b""),
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
    """Return the header that says that this pod is of the job; it says nothing to any other."""
    secret = secret_of(os.environ)
    if secret is None:
        return {}
    try:
        # As it goes over the wire: requests escapes what a URL must not have.
        target = requests.Request(method, url).prepare().path_url
    except (ValueError, requests.RequestException):
        # Sending says what is wrong with it.
        return {}
    return {HEADER: proof(secret, method, target, body, now=time.time())}
