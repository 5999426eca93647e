"""Logs: one JSON object per line on standard output, with a constant message and key-value pairs.

Log records of libraries, gunicorn's and the standard library's among them, have the same format.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LONGEST: Final = 2000
"""Maximum length of a string in characters. Addresses and names come from outside; a huge one must
not produce a huge line.
"""


class _Lines(structlog.WriteLogger):
    """Writes rendered lines of one logger."""

    def __init__(self, name: str, out: TextIO) -> None:
        super().__init__(out)
        self.name = name


def configure_logs(level: str, out: TextIO | None = None) -> None:
    """Send all log records of the process through one renderer; call once at the start.

    Lines of ours are written at once: a record of the standard library, which looks for its caller,
    takes twice as long.

    Args:
        level: one of `settings.LEVELS`; lower records are dropped.
        out: where lines go; None: standard output.
    """
    found = out or sys.stdout
    # A logger without a name has that of its module, the first caller that is not listed here.
    name_of = structlog.stdlib.LoggerFactory(ignore_frame_names=[__name__])
    structlog.configure(
        processors=[*_SHARED, _RENDERER],
        logger_factory=lambda *args: _Lines(name_of(*args).name, found),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(found)
    handler.setFormatter(formatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())


def gunicorn_logs(level: str) -> dict[str, Any]:
    """Return `logconfig_dict` for gunicorn, which configures the process's logging again, in the
    same way.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": formatter}},
        "handlers": {
            "json": {
                "class": "logging.StreamHandler",
                "formatter": "json",
                "stream": "ext://sys.stdout",
            }
        },
        "root": {"level": level.upper(), "handlers": ["json"]},
        "loggers": {
            # Handled by the root logger only, or every line would appear twice; and no line per
            # request.
            "gunicorn.error": {"handlers": [], "propagate": True},
            "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
        },
    }


def formatter() -> logging.Formatter:
    """Return the formatter for records of ours and of libraries."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _RENDERER,
        ],
    )


def _bounded(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["event"] = str(event["event"])[:LONGEST]
    return event


_SHARED: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.dict_tracebacks,
    _bounded,
)
_RENDERER: Final = structlog.processors.JSONRenderer(default=str)
