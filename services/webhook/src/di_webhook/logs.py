"""One JSON object a line on standard output, gunicorn's lines included."""

from __future__ import annotations

import logging
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger


def create_log(level: str) -> FilteringBoundLogger:
    """The service's own log; `level` is a name of the logging module, in any case."""
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
    )
    return log


def gunicorn_log_config(level: str) -> dict[str, Any]:
    """A dictConfig that gives gunicorn's messages the same shape."""
    handler = {
        "class": "logging.StreamHandler",
        "formatter": "json",
        "stream": "ext://sys.stdout",
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "root": {"level": level.upper(), "handlers": ["json"]},
        "loggers": {
            # Handled by the root alone, or every line would come twice.
            "gunicorn.error": {"level": level.upper(), "handlers": [], "propagate": True},
            "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
        },
        "handlers": {"json": handler},
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [
                    structlog.stdlib.add_log_level,
                    structlog.stdlib.add_logger_name,
                    structlog.processors.TimeStamper(fmt="iso", utc=True),
                ],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.ExceptionRenderer(),
                    _one_line,
                    structlog.processors.JSONRenderer(),
                ],
            }
        },
    }


def _one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # Client addresses and uids come from outside; huge ones must not become huge lines.
    event["event"] = str(event["event"])[:2000]
    return event
