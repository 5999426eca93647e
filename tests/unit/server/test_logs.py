"""Lines of libraries are ours: one JSON object with all that was said."""

from __future__ import annotations

import json
import logging

from di_server.logs import gunicorn_settings


def test_what_a_library_adds_to_a_line_is_in_it() -> None:
    settings = dict(gunicorn_settings("info")["formatters"]["json"])
    formatter = settings.pop("()")(**settings)
    record = logging.makeLogRecord(
        {"msg": "watch failed", "levelname": "WARNING", "plural": "pods", "reason": "WatchCut"}
    )
    line = json.loads(formatter.format(record))
    assert line.pop("timestamp")
    assert line == {
        "event": "watch failed",
        "level": "warning",
        "plural": "pods",
        "reason": "WatchCut",
    }
