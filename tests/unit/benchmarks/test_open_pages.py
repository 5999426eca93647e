"""The figures of the benchmark of open pages."""

from __future__ import annotations

from tools.benchmarks.open_pages import Course, summary


def test_the_figures_are_by_second_and_by_page() -> None:
    course = Course(answers=[0.01] * 200, behind=[0.05] * 200, told=400, sent=[0.0] * 600)
    found = summary(course, pages=20, rate=60, seconds=10, watches=1, used=6.0, held=1000)
    assert found["told_a_second_a_page"] == 2.0
    assert found["answers_a_second"] == 20.0
    assert (found["answer"], found["behind"]["p99_ms"]) == ({"p50_ms": 10.0, "p99_ms": 10.0}, 50.0)
    assert (found["updates"], found["watches"], found["processors"]) == (600, 1, 0.5)
