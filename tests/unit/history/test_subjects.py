"""Events and pods are accepted from their subject's namespace, and bounded by subject."""

from __future__ import annotations

from di_history.subjects import BURST_BYTES, RATE_BYTES, Budgets, Early, Subjects


def test_a_subject_is_found_only_in_its_own_namespace() -> None:
    subjects = Subjects()
    subjects.add("rl", "u1", "u1")
    subjects.add("rl", "pod-1", "u1")
    assert subjects.job_of("rl", "pod-1") == "u1"
    assert subjects.job_of("other", "pod-1") is None
    assert subjects.job_of("other", "u1") is None


def test_a_subject_that_is_gone_is_still_found() -> None:
    subjects = Subjects()
    subjects.add("rl", "pod-1", "u1")
    subjects.remove("rl", "pod-1")
    subjects.remove("rl", "never seen")
    assert subjects.job_of("rl", "pod-1") == "u1"


def test_early_events_are_bounded_and_one_namespace_pays_for_its_own() -> None:
    early = Early[int](most=1000)
    early.add("b", "u", 1, 100)
    for number in range(1000):
        early.add("a", str(number % 50), number, 10)
    assert early.bytes <= 1000
    assert early.take("b", "u") == [1]
    assert early.take("b", "u") == []
    assert early.take("a", "49")
    assert early.take("other", "49") == []


def test_a_subject_has_a_burst_and_then_a_rate_in_bytes() -> None:
    now = 0.0
    budgets = Budgets(clock=lambda: now)
    size = BURST_BYTES // 8
    assert [budgets.take("rl", "u", size) for _ in range(8)] == [(True, False)] * 8
    # Reported once, until something is accepted again.
    assert [budgets.take("rl", "u", size) for _ in range(3)] == [
        (False, True),
        (False, False),
        (False, False),
    ]
    assert budgets.take("rl", "another", size) == (True, False)
    now += size / RATE_BYTES
    assert budgets.take("rl", "u", size) == (True, False)
    assert budgets.take("rl", "u", size) == (False, True)
