"""JSON over HTTP with a deadline, for talking to collectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests

REQUEST_SECONDS = 10.0


class Unreachable(Exception):
    """No answer in time, or one with an error code; the message has what the peer said."""


def call(
    method: str,
    url: str,
    body: Mapping[str, Any] | None = None,
    *,
    seconds: float = REQUEST_SECONDS,
) -> dict[str, Any]:
    """Send one request and return the JSON object of the answer.

    Raises:
        Unreachable: there is no such object.
    """
    try:
        with requests.Session() as session:
            # Pods talk to each other directly: a proxy variable of the image must not come between.
            session.trust_env = False
            answer = session.request(method, url, json=body, timeout=seconds)
            if not answer.ok:
                raise Unreachable(f"{method} {url}: {answer.status_code}: {answer.text[:2048]}")
            result: dict[str, Any] = answer.json()
            return result
    except requests.RequestException as error:
        raise Unreachable(f"{method} {url}: {error}") from error
