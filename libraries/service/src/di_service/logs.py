"""Logs: one JSON object a line on standard output, a constant message plus key-values.

Lines of libraries, gunicorn's and the standard library's among them, go the same way.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LONGEST: Final = 2000
"""Characters of a text. Addresses and names come from outside; a huge one must not become a huge
line."""


def configure_logs(level: str) -> None:
    """Send all lines of the process through one renderer; once, at its start.

    Args:
        level: one of `settings.LEVELS`; lines below it are not written.
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
    """`logconfig_dict` for gunicorn, which sets the process's logs up anew: to the same."""
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
            # Handled by the root alone, or every line would come twice; and no line a request.
            "gunicorn.error": {"handlers": [], "propagate": True},
            "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
        },
    }


def formatter() -> logging.Formatter:
    """Makes a line of a record, ours or a library's."""
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
