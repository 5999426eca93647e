"""Server-sent events: a page is notified of changes, and reloads its content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flask import Blueprint, Response, abort, request

from di_dashboard.cluster_cache.cache import STATE_TOPIC
from di_dashboard.cluster_cache.feed import Listener, TooMany
from di_dashboard.pages.parts import Parts, parts
from di_service.serving.streams import STREAM, Stream

stream: Final = Blueprint("stream", __name__)
_PAUSE: Final = 0.5
"""Minimum seconds between two events."""
_BEAT: Final = 15.0
"""Seconds after which a page is notified without a change, because ages grow."""
_LONGEST: Final = 400


@stream.get("/stream")
def events() -> Response:
    """Stream the changes of a topic."""
    topic = request.args.get("topic", "")[:_LONGEST]
    return streamed(
        lambda here: Changes(here, here.feed.join([topic, STATE_TOPIC])), first=b"retry: 2000\n\n"
    )


def streamed(begin: Callable[[Parts], Stream], *, first: bytes) -> Response:
    """Return a response of server-sent events that counts as an open page of the user.

    Args:
        begin: creates the stream that follows `first`.
    """
    here = parts()
    try:
        close = here.open_pages.open(here.user)
    except TooMany as error:
        abort(503, str(error))
    try:
        going_on = begin(here)
    except BaseException:
        close()
        raise
    request.environ[STREAM] = Counted(going_on, close)
    # An iterator, because a sequence would have a length.
    return Response(iter([first]), mimetype="text/event-stream")


class Counted:
    """A stream with the function that ends its count."""

    def __init__(self, counted: Stream, close: Callable[[], None]) -> None:
        self._counted = counted
        self._close = close
        self.beat_seconds = counted.beat_seconds
        self.rest_seconds = counted.rest_seconds
        self.on_news = counted.on_news
        self.more = counted.more

    def close(self) -> None:
        """See `Stream`."""
        self._close()
        self._counted.close()


class Changes:
    """A stream with an event for each change, and one from time to time without."""

    beat_seconds = _BEAT
    rest_seconds = _PAUSE

    def __init__(self, here: Parts, listener: Listener) -> None:
        self._here = here
        self._listener = listener
        self.on_news = listener.on_news

    def more(self, *, is_news: bool) -> bytes | None:
        """See `Stream`."""
        del is_news
        if not self._here.stay():
            return None
        kind = "changed" if self._listener.take() else "beat"
        return f"event: {kind}\ndata: {self._here.cluster_cache.version}\n\n".encode()

    def close(self) -> None:
        """See `Stream`."""
        self._here.feed.leave(self._listener)
