"""A request between two pods of a job, and its response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Union

from di_orchestrator.errors import BadRequest


class _Query(dict[str, str]):
    """The last value of each name; a missing name is a mistake in the request."""

    def __missing__(self, name: str) -> str:
        raise BadRequest(f"the query has no {name}")


def query_of(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Return the values of a query by their names."""
    return _Query(pairs)


@dataclass(frozen=True)
class Asked:
    """A request of a pod.

    Attributes:
        target: path and query, unchanged.
        query: the last value of each name.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    target: str = ""


@dataclass(frozen=True, init=False)
class Reply:
    """The response to a request.

    Attributes:
        body: bytes; a text is sent in UTF-8.

    Raises:
        TypeError: the body or the status has another type.
    """

    status: int
    body: bytes

    def __init__(self, status: int = 200, body: bytes | str = b"") -> None:
        sent: object = body.encode() if isinstance(body, str) else body
        if not isinstance(sent, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"a body is bytes or text, and not {type(sent).__name__}: json.dumps(...) or "
                "di_orchestrator.arrays.pack(...) makes one"
            )
        if not isinstance(status, int) or not 200 <= status <= 599:
            raise TypeError(f"the status is {status!r}, and should be a number from 200 to 599")
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "body", bytes(sent))


Answering = Callable[[Asked], Union[Reply, bytes, str, None]]
"""Returns a response; bytes and text are the body of one, and None is an empty one."""


def reply_of(found: object) -> Reply:
    """Return the response that an `Answering` has returned.

    Raises:
        TypeError: it is none of its types.
    """
    if isinstance(found, Reply):
        return found
    if found is None:
        return Reply()
    if isinstance(found, (bytes, str)):
        return Reply(body=found)
    raise TypeError(
        f"the answer is {type(found).__name__}, and should be di.Reply, bytes, text or None"
    )
