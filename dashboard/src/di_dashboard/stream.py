"""Server-sent events: a page is told that what it shows has changed, and asks for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from flask import Blueprint, Response, abort, request, stream_with_context

from di_dashboard.feed import Listener, TooMany
from di_dashboard.parts import parts
from di_dashboard.world import STATE_TOPIC

stream: Final = Blueprint("stream", __name__)
_PAUSE: Final = 0.5
"""Seconds between two events at least, however much happens."""
_BEAT: Final = 15.0
"""Seconds after which a page is told although nothing has happened: ages go on."""
_LONGEST: Final = 400


@stream.get("/stream")
def events() -> Response:
    """Tell of changes of a topic."""
    here = parts()
    topic = request.args.get("topic", "")[:_LONGEST]
    try:
        listener = here.feed.join([topic, STATE_TOPIC])
    except TooMany as error:
        abort(503, str(error))
    answer = Response(stream_with_context(_events(listener)), mimetype="text/event-stream")
    # Also when the page has gone before the first byte was asked for.
    answer.call_on_close(lambda: here.feed.leave(listener))
    return answer


def _events(listener: Listener) -> Iterator[str]:
    yield "retry: 2000\n\n"
    while parts().stay():
        has_news = listener.wait(_BEAT)
        yield f"event: {'changed' if has_news else 'beat'}\ndata: {parts().world.version}\n\n"
        time.sleep(_PAUSE)
