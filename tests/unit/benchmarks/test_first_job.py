"""The times of a first job and of its edits."""

from __future__ import annotations

import pytest

from tools.benchmarks.first_job.__main__ import table
from tools.benchmarks.first_job.rounds import Round, started


def test_the_line_of_a_round_is_found_between_others() -> None:
    text = "Running as root\n1 10.5\n2 20.5 s\n2 20.25\n"
    assert started(2, text) == 20.25
    with pytest.raises(AssertionError):
        started(3, text)


def test_a_row_has_the_first_job_and_the_median_and_longest_of_its_edits() -> None:
    rounds = [Round(9.0, 1.0), Round(2.0, 1.0), Round(7.0, 3.0), Round(3.0, 1.0)]
    assert table([("a", rounds)]).splitlines()[-1] == "| a | 9.0 | 3.0 | 7.0 | 1 |"
