"""Programs that run for minutes show how far they are, of how much, and the time left."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tools.faults.session import Count
from tools.fuzz.turns import Turns
from tools.lanes import run
from tools.lanes.progress import State, remaining, shown

SECONDS = 60


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (State(share=0.0, text="0 of 3"), "[  0%] 0 of 3"),
        (State(share=0.43, text="3 of 7", left=560.4), "[ 43%] 3 of 7, 9:20 left"),
        (State(share=1.02, text="7 of 7", left=-3.0), "[100%] 7 of 7, 0:00 left"),
    ],
)
def test_a_line_has_the_share_and_the_time_left(state: State, line: str, tmp_path: Path) -> None:
    assert state.line == line
    (tmp_path / "log").write_text(f"{line}\n")
    assert run.where(tmp_path / "log") == line.lstrip("[ ").replace("]", "", 1)


def test_the_time_left_follows_the_rate_so_far() -> None:
    assert remaining(0.0, 10.0) is None
    assert remaining(0.25, 10.0) == 30.0
    assert remaining(1.0, 10.0) == 0.0


def test_lines_come_while_the_program_waits_and_end_with_it() -> None:
    lines: list[str] = []
    third = threading.Event()

    def show(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            third.set()

    with shown(lambda: State(share=0.5, text=f"{len(lines)}"), show=show, every=0.001):
        assert third.wait(SECONDS)
    assert lines[:3] == ["[ 50%] 0", "[ 50%] 1", "[ 50%] 2"]
    assert "progress" not in {each.name for each in threading.enumerate()}


def test_fault_plans_count_clean_runs_and_plans() -> None:
    now = 0.0
    count = Count(plans=6, clean=2, clock=lambda: now)
    assert count.state().line == "[  0%] 0 of 2 clean runs"
    count.cleaned()
    now = 10.0
    assert count.state().line == "[ 12%] 1 of 2 clean runs, 1:10 left"
    count.cleaned()
    count.judged(found=True)
    count.judged(found=False)
    now = 40.0
    assert count.state().line == "[ 50%] 2 of 6 plans, 1 found something, 0:40 left"


def test_fuzz_targets_have_their_turns_in_the_time_that_is_left() -> None:
    now = 0.0
    turns = Turns(targets=["a", "b", "c"], aside=["rest"], seconds=300, lanes=2, clock=lambda: now)
    assert turns.state().line == "[  0%] 0 of 4 targets ended, 10:00 left"
    turns.start("a")
    turns.start("b")
    now = 100.0
    turns.start("rest")
    now = 200.0
    assert turns.state().line == "[ 33%] 0 of 4 targets ended, a, b, rest, 6:40 left"
    turns.end("a")  # It had all of its inputs early.
    turns.start("c")
    assert turns.state().line == "[ 40%] 1 of 4 targets ended, b, rest, c, 5:00 left"
    for name in ("b", "c", "rest"):
        turns.end(name)
    assert turns.state().line == "[100%] 4 of 4 targets ended, 0:00 left"
