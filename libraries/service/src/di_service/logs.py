"""Logs: one JSON object per line on standard output, with a constant message and key-value pairs.

Log records of libraries, gunicorn's and the standard library's among them, have the same format.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LONGEST: Final = 2000
"""Maximum length of a string in characters. Addresses and names come from outside; a huge one must
not produce a huge line.
"""


def configure_logs(level: str) -> None:
    """Send all log records of the process through one renderer; call once at the start.

    Args:
        level: one of `settings.LEVELS`; lower records are dropped.
    """
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
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
            structlog.processors.JSONRenderer(default=str),
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
