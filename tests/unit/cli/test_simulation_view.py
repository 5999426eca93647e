"""How a person reads what would become of a job."""

from __future__ import annotations

import pytest

from di_cli.views.simulation import Outcome, Shift, Simulation, as_json, lines

WAITS = Outcome(now={}, later={}, obstacle="no room")


def said(outcome: Outcome, raised: Outcome | None = None) -> list[str]:
    found = Simulation(key="rl/big", policy="goodput", known=True, outcome=outcome, raised=raised)
    return list(lines(found))[:-1]


@pytest.mark.parametrize(
    ("change", "before", "after", "text"),
    [
        (
            "scale",
            {"learner": 1, "collector": 8},
            {"learner": 1, "collector": 4},
            "shrinks    x: collector 8 -> 4",
        ),
        ("scale", {"collector": 4}, {"collector": 5}, "grows      x: collector 4 -> 5"),
        (
            "restart",
            {"learner": 2},
            {"learner": 1},
            "shrinks    x: learner 2 -> 1 (from its last checkpoint)",
        ),
        ("restart", {"learner": 2}, {"learner": 2}, "moves      x (from its last checkpoint)"),
        ("stop", {"learner": 2}, {}, "stops      x"),
    ],
)
def test_a_changed_job_is_shown_before_and_after(
    change: str, before: dict[str, int], after: dict[str, int], text: str
) -> None:
    shift = Shift(key="rl/x", change=change, before=before, after=after)
    later = {"learner": {"a": 1}}
    assert said(Outcome(now={}, later=later, shifts=[shift], obstacle="no room")) == [
        "does not fit now: no room",
        "would fit when the allocator reconsiders all jobs: learner 1 on a",
        f"  {text}",
    ]


def test_many_changed_jobs_are_counted() -> None:
    shifts = [Shift(key=f"web/x{n}", change="stop", before={}, after={}) for n in range(12)]
    text = said(Outcome(now={"learner": {"a": 1}}, later={}, shifts=shifts))
    assert text[1] == "  stops      web/x0"
    assert text[-1] == "  and 2 more jobs"


def test_many_nodes_are_counted_and_growth_is_shown() -> None:
    now, later = {"learner": {f"n{n}": 2 for n in range(8)}}, {"learner": {"n0": 1, "n1": 2}}
    assert said(Outcome(now=now, later=later)) == [
        "fits now: learner 16 on n0 (2), n1 (2), n2 (2), n3 (2), n4 (2), n5 (2) and 2 more nodes",
        "  then       learner 3 on n0 (1), n1 (2), when the allocator reconsiders all jobs",
        "  changes    no other job",
    ]


def test_the_effect_of_a_higher_priority_is_shown() -> None:
    shift = Shift(key="rl/x", change="stop", before={"learner": 1}, after={})
    raised = Outcome(now={}, later={"learner": {"a": 1}}, shifts=[shift], obstacle="no room")
    assert said(WAITS, raised) == [
        "does not fit now: no room",
        "nobody can say when: no job that runs reports its progress, or has a deadline",
        "would fit with --priority high: learner 1 on a",
        "  stops      x",
    ]
    found = Simulation(key="rl/big", policy="", known=True, outcome=WAITS, raised=raised)
    told = as_json(found)
    assert (told["starts"], told["withHighPriority"]["starts"], told["policy"]) == (
        False,
        True,
        None,
    )
