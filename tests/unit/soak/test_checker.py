"""The checker that judges the scalings of `make soak`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.soak import linear
from tools.soak.scalings import FIRST, LEAST, MOST

pytestmark = pytest.mark.extended  # builds a Go program

Operation = dict[str, Any]


@pytest.fixture(scope="module")
def checker() -> Path:
    return linear.checker()


def add(client: int, call: int, end: int, delta: int, value: int | None) -> Operation:
    answer = "refused" if value is None else "set"
    times: Operation = {"client": client, "call": call, "return": end}
    return times | {"kind": "add", "delta": delta, "answer": answer, "value": value or 0}


def lost(client: int, call: int, delta: int) -> Operation:
    return add(client, call, call + 1, delta, 0) | {"answer": "unknown"}


HISTORIES: dict[str, tuple[list[Operation], int, str]] = {
    "one after the other": ([add(1, 1, 2, 1, 3), add(2, 3, 4, 1, 4)], 4, "Ok"),
    "at once, the later one first": ([add(1, 1, 9, 1, 4), add(2, 2, 3, 1, 3)], 4, "Ok"),
    "both told the same": ([add(1, 1, 9, 1, 3), add(2, 2, 3, 1, 3)], 3, "Illegal"),
    "the later one first, but it began after": (
        [add(1, 1, 2, 1, 4), add(2, 3, 4, 1, 3)], 4, "Illegal",
    ),
    "an effect twice": ([add(1, 1, 2, 1, 3)], 4, "Illegal"),
    "an effect lost": ([add(1, 1, 2, 1, 3)], 2, "Illegal"),
    "refused at the bound": ([add(1, 1, 2, 10, 12), add(2, 3, 4, 1, None)], 12, "Ok"),
    "refused without need": ([add(1, 1, 2, 1, None)], 2, "Illegal"),
    "without an answer, and done": ([lost(1, 1, 2), add(2, 5, 6, 1, 5)], 5, "Ok"),
    "without an answer, and not done": ([lost(1, 1, 2), add(2, 5, 6, 1, 3)], 3, "Ok"),
    "without an answer, and done twice": ([lost(1, 1, 2), add(2, 5, 6, 1, 7)], 7, "Illegal"),
}  # fmt: skip


def test_the_checker_knows_good_histories_from_bad_ones(checker: Path) -> None:
    histories = {
        name: linear.history(operations, first=FIRST, least=LEAST, most=MOST, last=last)
        for name, (operations, last, _) in HISTORIES.items()
    }
    expected = {name: verdict for name, (_, _, verdict) in HISTORIES.items()}
    assert linear.verdicts(checker, histories) == expected
