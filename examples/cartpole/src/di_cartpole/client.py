"""How collectors and the evaluator ask the learner, which may be starting or replaced."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import requests

REQUEST_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
RETRY_SECONDS = 0.25


class Unreachable(Exception):
    """The learner did not answer within the time given."""


def call(url: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """POST once; raises `requests.RequestException` without an answer of success."""
    with requests.Session() as session:
        # Pods talk to each other directly: a proxy variable of the image must not come between.
        session.trust_env = False
        answer = session.post(url, json=body, timeout=REQUEST_SECONDS)
        answer.raise_for_status()
        result: dict[str, Any] = answer.json()
        return result


def call_patiently(
    url: str,
    body: Mapping[str, Any],
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """POST until the learner answers.

    Raises:
        Unreachable: two minutes passed without an answer.
    """
    deadline = clock() + PATIENCE_SECONDS
    while True:
        try:
            return call(url, body)
        except requests.RequestException as error:
            if clock() >= deadline:
                raise Unreachable(f"{url}: {error}") from error
            pause(RETRY_SECONDS)
