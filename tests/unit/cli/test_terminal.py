"""What commands print on terminals: narrow ones, ones without colors, and ones with ASCII alone."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress

import pytest

from di_cli.render.table import Growing, Table, draw, fitted
from tests.unit.cli.conftest import EVENTS, JOBS, Di, condition, ends, job

_DI = (sys.executable, "-c", "from di_cli.main import main; main()")
_CONTROL = re.compile(r"\x1b\[[0-9;]*m")
_LONG = "a-job-with-a-long-name-of-an-experiment"


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    without = ("COLUMNS", "LINES", "NO_COLOR", "LC_ALL", "PYTHONIOENCODING", "PYTHONUTF8")
    kept = {key: value for key, value in os.environ.items() if key not in without}
    return {**kept, "TERM": "xterm", **more}


def _on_terminal(*words: str, columns: int = 80, **more: str) -> str:
    """What a command shows on a terminal with so many columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    started = subprocess.Popen(
        [*_DI, *words], stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=_environment(more)
    )
    os.close(its)
    shown = b""
    # At its end a terminal on Linux gives an error in place of nothing.
    with suppress(OSError):
        while part := os.read(ours, 1 << 16):
            shown += part
    os.close(ours)
    assert started.wait(60) == 0, shown
    return shown.decode()


def _fill(di: Di) -> None:
    for name in ("grpo-7b", _LONG):
        began = {"startTime": "2026-03-01T09:00:00Z"}
        body = job(
            name, "Running", **began, expectedCompletion=ends(6620, earliest=4810, latest=9020)
        )
        body["metadata"]["labels"] = {"owner": "ann"}
        di.world.put(f"{JOBS}/{name}", body)
        di.pod(name, "learner", 0, 0)
    message = (
        "pods are forbidden: exceeded quota: team, requested: pods=1, used: pods=3, limited: 3"
    )
    waits = [condition("Pending", "QuotaExceeded", message, at="11:48:00")]
    di.job("halfchee", "Pending", conditions=waits, progress={}, profilings={})
    event = {"involvedObject": {"kind": "DIJob", "name": "grpo-7b"}, "message": message}
    di.world.put(f"{EVENTS}/e", {**event, "metadata": {"name": "e"}, "reason": "JobPending"})
    di.node("gpu-1", 8)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "-A"],
        ["get", _LONG],
        ["describe", "grpo-7b"],
        ["describe", _LONG],
        ["events", "grpo-7b"],
        ["queue"],
        ["queue", "-o", "wide"],
        ["allocation", "-o", "wide"],
    ],
)
def test_a_table_is_no_wider_than_80_columns(di: Di, words: list[str]) -> None:
    _fill(di)
    lines = _CONTROL.sub("", _on_terminal(*words)).splitlines()
    hints = [line for line in lines if line.startswith("next: ")]
    facts = [line for line in lines if re.match(r"(Message|Job) ", line)]
    too_wide = [line for line in lines if len(line) > 80 and line not in (*hints, *facts)]
    assert not too_wide


def test_a_narrow_list_has_numbers_in_place_of_bars_and_fewer_columns(di: Di) -> None:
    _fill(di)
    wide = _on_terminal("list", columns=200)
    assert "▇▇▇▇▇▁▁▁  62%" in wide
    assert "(1h20m-2h30m)" in wide
    narrow = _on_terminal("list", columns=80)
    assert narrow.splitlines()[0].split() == ["NAME", "PHASE", "PROGRESS", "AGE", "ENDS"]
    row = next(line for line in narrow.splitlines() if line.startswith(_LONG))
    assert row.split()[-5:] == ["62%", "3h", "in", "about", "1h50m"]
    assert "▇" not in narrow
    assert "READY" in di("list").out


def test_a_long_message_keeps_all_its_words_on_a_narrow_terminal(di: Di) -> None:
    _fill(di)
    shown = _on_terminal("events", "grpo-7b", columns=60)
    assert " ".join(shown.split()).count("limited: 3") == 1
    assert max(map(len, shown.splitlines())) <= 60


@pytest.mark.parametrize("words", [["list"], ["logs", "grpo-7b"]])
def test_no_color_and_dumb_terminals_get_no_colours(di: Di, words: list[str]) -> None:
    _fill(di)
    di.world.logs["grpo-7b-learner-0"] = ["2026-03-01T11:59:50Z step 0"]
    assert "\x1b[" in _on_terminal(*words)
    assert "\x1b" not in _on_terminal(*words, NO_COLOR="1")
    assert "\x1b" not in _on_terminal(*words, TERM="dumb")
    assert "\x1b[" in _on_terminal(*words, NO_COLOR="")


def test_a_terminal_in_the_c_locale_gets_ascii(di: Di) -> None:
    _fill(di)
    shown = _on_terminal("list", columns=200, LC_ALL="C")
    assert shown.isascii()
    assert "#####...  62%" in shown


def _piped(*words: str, **more: str) -> str:
    done = subprocess.run(
        [*_DI, *words], check=False, capture_output=True, env=_environment(more), timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_a_pipe_in_an_encoding_without_the_signs_still_works(di: Di) -> None:
    _fill(di)
    body = job("named", "Running")
    body["metadata"]["annotations"] = {"about": "café"}
    di.world.put(f"{JOBS}/named", body)
    assert "#####...  62%" in _piped("list", PYTHONIOENCODING="ascii")
    found = json.loads(_piped("get", "named", "-o", "json", PYTHONIOENCODING="ascii"))
    assert found["metadata"]["annotations"] == {"about": "café"}
    assert "▇▇▇▇▇▁▁▁" in _piped("list", LC_ALL="C", PYTHONUTF8="1")


def test_lines_of_changes_are_aligned_with_those_before() -> None:
    lines = Growing()
    table = Table(header=("NAME", "PHASE", "AGE"), rows=[("one", "Pending", "3m")])
    assert lines.draw(table, [0]) == "NAME  PHASE    AGE\none   Pending  3m\n"
    table = Table(header=table.header, rows=[("a-longer-name", "Running", "4m"), ("b", "", "5m")])
    assert lines.draw(table, [0]) == "a-longer-name  Running  4m\n"
    table = Table(header=table.header, rows=[("b", "Failed", "6m")])
    assert lines.draw(table, [0]) == "b              Failed   6m\n"


def test_columns_are_left_out_in_their_order_only_as_needed() -> None:
    table = Table(header=("NAME", "A", "B"), rows=[("x" * 10, "1", "2")], optional=("B", "A"))
    assert draw(table) == draw(table, width=16)
    assert list(fitted(table, 15).header) == ["NAME", "A"]
    assert list(fitted(table, 12).header) == ["NAME"]
