"""JSON over HTTP with a deadline, for talking to collectors and to di-server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

REQUEST_SECONDS = 10.0

# Pods talk to each other directly: a proxy variable of the image must not come between them.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Unreachable(Exception):
    """No answer in time, or one with an error code; the message has what the peer said."""


def call(
    method: str,
    url: str,
    body: Mapping[str, Any] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    seconds: float = REQUEST_SECONDS,
) -> dict[str, Any]:
    """Send one request and return the JSON object of the answer.

    Raises:
        Unreachable: there is no such object.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, method=method, data=data, headers=dict(headers or {}))
    try:
        with _OPENER.open(request, timeout=seconds) as answer:
            result: dict[str, Any] = json.load(answer)
            return result
    except urllib.error.HTTPError as error:
        said = error.read(2048).decode(errors="replace")
        raise Unreachable(f"{method} {url}: {error.code}: {said}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise Unreachable(f"{method} {url}: {error}") from error
