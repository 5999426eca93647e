"""Candidates take turns, and a ratio is of two runs of one round."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tools.benchmarks import page
from tools.benchmarks.operator.throughput import Run, ratios, turns
from tools.benchmarks.rival import PYTORCHJOB
from tools.benchmarks.testbed import CEILING, OPERATOR, RIVAL


def run(candidate: str, rate: float) -> Run:
    values: dict[str, Any] = {field.name: 0 for field in dataclasses.fields(Run)}
    return Run(**values | {"candidate": candidate, "jobs_per_second": rate})


def test_the_order_of_candidates_turns_round_each_time() -> None:
    assert turns("a", "b", "c", rounds=3) == [*"abc", *"cba", *"abc"]


def test_a_ratio_compares_the_runs_of_one_round() -> None:
    runs = [
        *(run(OPERATOR, 30), run(RIVAL, 20), run(CEILING, 60)),
        *(run(CEILING, 10), run(RIVAL, 10), run(OPERATOR, 5)),
        run(OPERATOR, 7),
    ]
    assert ratios(runs, RIVAL, lambda each: each.jobs_per_second) == [1.5, 0.5]
    assert ratios(runs, CEILING, lambda each: each.jobs_per_second) == [0.5, 0.5]


def test_new_results_replace_their_part_of_the_page_alone() -> None:
    marks = {
        part: (page.BEGIN.format(part), page.END.format(part)) for part in ("rival", "requests")
    }
    text = "".join(f"# {part}\n{begin}\nold\n{end}\n" for part, (begin, end) in marks.items())
    found = page.replace(text, "requests", "new")
    begin, end = marks["requests"]
    assert found == text.replace(f"{begin}\nold\n{end}", f"{begin}\nnew\n{end}")
    with pytest.raises(ValueError, match="measured: results"):
        page.replace(text, "results", "new")


def test_the_latest_true_condition_is_the_phase_of_a_rival_job() -> None:
    created, running = {"type": "Created", "status": "True"}, {"type": "Running", "status": "False"}
    ended = {"type": "Succeeded", "status": "True"}
    assert PYTORCHJOB.phase({}) is None
    assert PYTORCHJOB.phase({"status": {"conditions": [created, running]}}) == "Created"
    assert PYTORCHJOB.phase({"status": {"conditions": [created, running, ended]}}) == "Succeeded"
