"""The score of `di why`: in how many states its first line has the true cause."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from di_api.explain import explain
from tests.unit.api.explain.first_lines import jobs, nodes, programs, refusals, seeded, starting
from tests.unit.api.explain.first_lines.case import Case

CASES: Final[Mapping[str, Case]] = {
    f"{module.__name__.rpartition('.')[2]}/{name}": case
    for module in (jobs, nodes, programs, refusals, seeded, starting)
    for name, case in module.CASES.items()
}


RIGHT: Final = 38 / 40
"""The share that has to be right."""


def wrong_words(case: Case) -> list[str]:
    """The words of the true cause that the first line lacks, and those of wrong causes in it."""
    line = explain(case.facts).summary
    lacking = [f"lacks {word}" for word in case.says if word not in line]
    return [*lacking, *(f"has {word}" for word in case.never if word in line)]


def test_the_first_line_has_the_true_cause(record_property: Callable[[str, object], None]) -> None:
    """One test for all: what counts is the score, which the test run prints."""
    wrong = {name: found for name, case in CASES.items() if (found := wrong_words(case))}
    right = len(CASES) - len(wrong)
    record_property("score", f"di why: {right} of {len(CASES)} first lines right")
    complaints = [f"{name}: {'; '.join(found)}" for name, found in wrong.items()]
    assert right >= RIGHT * len(CASES), "\n".join(complaints)


@pytest.mark.parametrize("name", CASES)
def test_the_first_line_is_one_line_without_gaps(name: str) -> None:
    found = explain(CASES[name].facts)
    assert "\n" not in found.summary
    assert not re.search(r"\{[a-z]+\}|: $|: :|  ", found.summary), found.summary


def test_as_many_states_come_from_public_threads_as_from_nodes_of_our_own() -> None:
    threads = [case.thread for case in CASES.values() if case.thread]
    assert len(threads) >= 16
    assert len(set(threads)) == len(threads)
