"""Lines of a service and of its libraries are alike: one JSON object with all that was said."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from collections.abc import Iterator

import pytest
import structlog

from di_service.logs import LONGEST, configure_logs, formatter, gunicorn_logs


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level
    for name in ("gunicorn.error", "gunicorn.access"):
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).propagate = True


def test_fields_that_a_library_adds_are_in_the_line() -> None:
    record = logging.makeLogRecord(
        {
            "msg": "watch failed",
            "name": "di_kube",
            "levelname": "WARNING",
            "plural": "pods",
            "reason": "WatchCut",
        }
    )
    line = json.loads(formatter().format(record))
    assert line.pop("timestamp")
    assert line == {
        "event": "watch failed",
        "level": "warning",
        "logger": "di_kube",
        "plural": "pods",
        "reason": "WatchCut",
    }


@pytest.mark.parametrize("gunicorn", [False, True], ids=["alone", "under gunicorn"])
def test_each_line_is_written_once_and_from_its_level_on(
    gunicorn: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("warning")
    if gunicorn:
        logging.config.dictConfig(gunicorn_logs("warning"))
    log = structlog.get_logger("service")
    log.info("below the level")
    log.warning("ours", job="x")
    logging.getLogger("gunicorn.error").error("theirs")
    logging.getLogger("gunicorn.access").error("GET /")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    access = [] if gunicorn else ["GET /"]
    assert [line["event"] for line in lines] == ["ours", "theirs", *access]
    assert lines[0]["job"] == "x"


def test_a_huge_text_is_cut() -> None:
    record = logging.makeLogRecord({"msg": "x" * 1_000_000, "levelname": "WARNING"})
    assert len(formatter().format(record)) < 2 * LONGEST


def test_all_lines_go_to_the_given_stream() -> None:
    out = io.StringIO()
    configure_logs("info", out)
    structlog.get_logger("service").info("ours")
    structlog.get_logger().info("of this module")
    logging.getLogger("library").warning("theirs")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["logger"], line["event"]) for line in lines] == [
        ("service", "ours"),
        (__name__, "of this module"),
        ("library", "theirs"),
    ]
