"""Dry runs of a job's pods before it gets nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.allocator.model.job import WAIT
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.withdrawals.delays import FIRST_DELAY, spread
from tests.unit.allocator.grants.test_withdrawals import REFUSED, Bench, large, learners
from tests.unit.allocator.objects import GANG, placed

Object = dict[str, Any]


@pytest.mark.parametrize("kind", [{}, GANG], ids=["preemptible", "gang"])
def test_a_job_gets_no_nodes_before_its_dry_run_has_passed(kind: Object) -> None:
    bench = Bench(large("x", **kind), needs_dry_runs=True)
    bench.look()
    assert not bench.has("x")
    bench.pass_dry_run("x")
    bench.look()
    assert len(bench.has("x")) == 8


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/is-refused-in-a-dry-run")
def test_a_refused_dry_run_keeps_a_job_out_and_evicts_no_other() -> None:
    victim, important = large("y"), large("x", priority="high")
    bench = Bench(important, victim, policy=GoodputPolicy(), needs_dry_runs=True)
    bench.pass_dry_run("y")
    bench.look()
    delays = []
    for _ in range(8):
        bench.refuse("x", is_dry_run=True)
        bench.look()
        assert bench.is_kept_out("x")
        assert bench.kept_out["uid-x"].message == (
            "no nodes are granted, because a dry run of the job's pods was refused; the next try "
            f"is at {format_time(bench.next_due or bench.now)}: {REFUSED}"
        )
        waited = 0
        while bench.is_kept_out("x"):
            bench.look(after=1)
            waited += 1
            assert (len(bench.has("x")), len(bench.has("y"))) == (0, 8)
        delays.append(waited)
    longest = [15, 30, 60, 120, 240, 480, 600, 600]
    assert all(2 * most / 3 <= each <= most for each, most in zip(delays, longest, strict=True))
    bench.pass_dry_run("x")
    bench.look()
    assert bench.words["uid-x"].wants == placed(learner="a a a a b b b b")


def test_a_job_is_asked_about_once_for_each_spec() -> None:
    body = large("x")
    bench = Bench(body, needs_dry_runs=True)
    bench.pass_dry_run("x")
    bench.look()
    assert len(bench.has("x")) == 8
    # What holds nodes is not asked about; what was refused has to be.
    bench.edit(body, generation=2)
    bench.look()
    assert len(bench.has("x")) == 8
    bench.refuse("x", generation=2)
    bench.look(after=15)
    bench.look(after=15)
    assert not bench.is_kept_out("x")
    assert not bench.has("x")
    bench.pass_dry_run("x", generation=1)
    bench.look()
    assert not bench.has("x")
    bench.pass_dry_run("x", generation=2)
    bench.look()
    assert len(bench.has("x")) == 8


def test_a_dry_run_of_an_earlier_spec_says_nothing_about_the_present_one() -> None:
    body = large("x")
    bench = Bench(body, needs_dry_runs=True)
    bench.edit(body, generation=2)
    bench.refuse("x", is_dry_run=True, generation=1)
    bench.look()
    assert not bench.is_kept_out("x")


def test_a_late_answer_to_a_dry_run_takes_no_nodes_away() -> None:
    bench = Bench(large("x"), needs_dry_runs=True)
    bench.pass_dry_run("x")
    bench.look()
    bench.refuse("x", is_dry_run=True)
    bench.look(after=3600)
    assert len(bench.has("x")) == 8


def test_a_refused_dry_run_during_a_delay_does_not_make_it_longer() -> None:
    bench = Bench(large("x"), needs_dry_runs=True)
    bench.refuse("x", is_dry_run=True)
    bench.look()
    due = bench.now + spread(FIRST_DELAY, "uid-x")
    bench.refuse("x", is_dry_run=True)
    bench.look(after=1)
    assert bench.next_due == due


def test_a_job_with_pods_is_not_asked_about() -> None:
    body = large("x")
    bench = Bench(body, needs_dry_runs=True)
    bench.look()
    assert "uid-x" not in bench.words
    bench.see(*learners(3))
    bench.look()
    assert "uid-x" in bench.words


def test_a_resumed_job_holds_nothing_of_what_its_status_still_shows() -> None:
    placement = {"learner": ["a"] * 4 + ["b"] * 4}
    bench = Bench(large("x", status={"placement": placement}))
    bench.reader.put_job(large("x", status={"placement": placement}, suspend=True))
    assert bench.reader.read(granted={}, now=bench.now).given_up == {"uid-x"}
    bench.reader.put_job(large("x", status={"placement": placement}))
    assert bench.reader.read(granted={}, now=bench.now).held == {"rl/x": WAIT}
    # What it is granted since then is its own.
    had = placed(learner="a " * 8)
    assert bench.reader.read(granted={"uid-x": had}, now=bench.now).given_up == set()
    assert len(bench.reader.read(granted={}, now=bench.now).held["rl/x"]) == 8


def test_a_preempted_job_is_decided_on_until_its_status_shows_no_nodes() -> None:
    placement = {"learner": ["a"] * 4 + ["b"] * 4}
    bench = Bench(large("x", status={"placement": placement}), needs_dry_runs=True)
    found = bench.reader.read(granted={"uid-x": WAIT}, now=bench.now)
    assert found.held == {"rl/x": WAIT}
    bench.reader.put_job(large("x", status={"placement": {}}))
    assert not bench.reader.read(granted={"uid-x": WAIT}, now=bench.now).held


def test_a_dry_run_is_forgotten_with_the_job() -> None:
    body = large("x")
    bench = Bench(body, needs_dry_runs=True)
    bench.pass_dry_run("x")
    bench.reader.remove_job(body)
    bench.reader.take(Changes(jobs={"uid-x": (True, body)}))
    bench.now += timedelta(seconds=1)
    bench.look()
    assert not bench.has("x")
