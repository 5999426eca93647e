"""HTTP with a deadline, for talking to the learner and to di-server."""

from __future__ import annotations

import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException

REQUEST_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
RETRY_SECONDS = 0.25


class Unreachable(Exception):
    """A peer gave no answer, or cannot give one now."""


class Refused(Exception):
    """A peer will not give another answer however often it is asked."""


class Left(Exception):
    """The pod was asked to leave before there was an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, whatever it says."""

    code: int
    body: bytes = b""


def exchange(
    method: str,
    url: str,
    body: bytes | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    ca_file: str | None = None,
) -> Answer:
    """Send one request.

    Args:
        ca_file: authorities to trust, for https; None: those of the image.

    Raises:
        Unreachable: no answer within ten seconds.
    """
    request = urllib.request.Request(url, method=method, data=body, headers=dict(headers or {}))
    try:
        with _opener(ca_file).open(request, timeout=REQUEST_SECONDS) as answer:
            return Answer(answer.status, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read())
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


def ask(
    method: str,
    url: str,
    body: bytes | None = None,
    *,
    leaving: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> bytes:
    """What the learner answers, once it does: it may still be starting, or be started again.

    Raises:
        Left: `leaving` was set while there was no answer.
        Refused: it does not take the request.
        Unreachable: two minutes passed without an answer.
    """
    deadline = clock() + PATIENCE_SECONDS
    while True:
        try:
            answer = exchange(method, url, body)
            if answer.code < 400:
                return answer.body
            said = f"{method} {url}: {answer.code}: {answer.body[:200].decode(errors='replace')}"
            if answer.code < 500:
                raise Refused(said)
            raise Unreachable(said)
        except Unreachable:
            if clock() >= deadline:
                raise
        if leaving.wait(RETRY_SECONDS):
            raise Left
