"""Logs: one JSON object a line on standard output, our own and the HTTP server's."""

from __future__ import annotations

from typing import Any, Final

import structlog

LEVELS: Final = ("debug", "info", "warning", "error")
_SHARED: Final = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure(level: str) -> None:
    """Make structlog write JSON lines; call once, at the start of the process.

    Args:
        level: one of LEVELS; lines below it are not written.
    """
    structlog.configure(
        processors=[
            *_SHARED,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


def gunicorn_settings(level: str) -> dict[str, Any]:
    """`logconfig_dict` that turns gunicorn's lines into ours; it writes no access log."""
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": [structlog.stdlib.ExtraAdder(), *_SHARED],
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
    }
    handler = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}
    logger = {"level": level.upper(), "handlers": ["console"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": formatter},
        "handlers": {"console": handler},
        "root": {"level": "WARNING", "handlers": ["console"]},
        "loggers": {"gunicorn.error": logger},
    }
