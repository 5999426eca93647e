"""What collectors and the evaluator ask the learner, and what it answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import di_orchestrator as di
from di_cartpole.work import Book


def ask(url: str, body: Mapping[str, Any], leaving: threading.Event) -> dict[str, Any]:
    """Ask the learner, which may be starting or be replaced.

    Raises:
        Left, Refused, Unreachable: as `di.call` does.
    """
    found: dict[str, Any] = json.loads(
        di.call("POST", url, json.dumps(body).encode(), leaving=leaving)
    )
    return found


def answering(book: Book) -> Callable[[di.Asked], di.Reply]:
    """What the learner's hub says."""
    return lambda asked: di.Reply(
        body=json.dumps(answer(book, asked.path, json.loads(asked.body))).encode()
    )


def answer(book: Book, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """What the learner says to one request.

    Raises:
        LookupError: there is no such path, or the body lacks a field.
    """
    match path:
        case "/work":
            return book.work(body["rank"], body["idle"])
        case "/results":
            book.results(body["generation"], body["results"])
            return {}
        case "/left":
            book.left(body["rank"])
            return {}
        case "/policy":
            return book.policy(body["rank"])
        case "/evaluations":
            book.evaluated(dict(body))
            return {}
        case _:
            raise LookupError(path)
