"""The error of a program is found in its log, and measurements are none."""

from __future__ import annotations

import pytest

from di_api.explain.program_errors import exit_text, program_error, unresolved_host

TRACEBACK = "Traceback (most recent call last):"
FRAME = '  File "/app/train.py", line 12, in <module>'


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["step 3 error 0.25", "td_error=0.5", "value error: 0.1"], ""),
        (["episodes failed: 0", "step 4"], ""),
        (["[rank1]: " + TRACEBACK, "[rank1]: " + FRAME, "[rank1]: KeyError: 'a'"], "KeyError: 'a'"),
        (["(RolloutWorker pid=77) " + TRACEBACK, FRAME, "(Worker pid=77) KeyError"], "KeyError"),
        ([TRACEBACK, FRAME, "queue.Empty"], "queue.Empty"),
        (["\x1b[31mValueError: bad\x1b[0m"], "ValueError: bad"),
        (
            [TRACEBACK, FRAME, "OSError: a", "step 5", TRACEBACK, FRAME, "KeyError: 'b'"],
            "KeyError: 'b'",
        ),
        ([f"fatal: {'x' * 1000}"], f"fatal: {'x' * 390}..."),
        ([], ""),
        (["", "  "], ""),
    ],
)
def test_the_error_of_a_log_is_found(lines: list[str], error: str) -> None:
    assert program_error(lines) == error


@pytest.mark.parametrize(
    ("error", "lines", "host"),
    [
        ("KeyError: 'a'", ["'hub.rl', 80"], None),
        ("curl: (6) Could not resolve host: hub.rl", [], "hub.rl"),
        ("dial tcp: lookup hub.rl on 10.96.0.10:53: no such host", [], "hub.rl"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", [], ""),
        (
            "socket.gaierror: [Errno -2] Name or service not known",
            ["GET http://hub.rl:80/"],
            "hub.rl",
        ),
    ],
)
def test_the_host_name_that_was_not_resolved_is_found(
    error: str, lines: list[str], host: str | None
) -> None:
    assert unresolved_host(error, lines, None) == host


def test_an_exit_code_names_its_signal() -> None:
    assert [exit_text(code) for code in (None, 3, 137)] == [
        "",
        "exit code 3",
        "exit code 137, SIGKILL",
    ]
