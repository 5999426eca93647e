"""JSON over HTTP with a deadline, for talking to the learner and to di-server."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any

REQUEST_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
RETRY_SECONDS = 0.25


class Unreachable(Exception):
    """A peer did not answer within the time given."""


def call(
    method: str,
    url: str,
    body: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    ca_file: str | None = None,
) -> dict[str, Any]:
    """Send one request and return the JSON object of the answer.

    Args:
        ca_file: authorities to trust, for https; None: those of the image.

    Raises:
        Unreachable: no answer within ten seconds, or an answer with an error code; the message
            carries the code and what the peer said.
    """
    request = urllib.request.Request(
        url,
        method=method,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(headers or {})},
    )
    try:
        with _opener(ca_file).open(request, timeout=REQUEST_SECONDS) as answer:
            result: dict[str, Any] = json.load(answer)
            return result
    except urllib.error.HTTPError as error:
        said = error.read(2048).decode(errors="replace")
        raise Unreachable(f"{method} {url}: {error.code}: {said}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(f"{method} {url}: {error}") from error


def _opener(ca_file: str | None) -> urllib.request.OpenerDirector:
    # Made for each request: the kubelet brings new authorities while the pod runs. Pods talk to
    # each other directly: a proxy variable of the image must not come between them.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if ca_file is not None:
        context = ssl.create_default_context(cafile=ca_file)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def call_patiently(
    url: str,
    body: Mapping[str, Any],
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """POST until the peer answers: it may still be starting, or be replaced after a failure.

    Raises:
        Unreachable: two minutes passed without an answer.
    """
    deadline = clock() + PATIENCE_SECONDS
    while True:
        try:
            return call("POST", url, body)
        except Unreachable:
            if clock() >= deadline:
                raise
            pause(RETRY_SECONDS)
