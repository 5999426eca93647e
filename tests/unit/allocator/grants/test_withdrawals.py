"""Grants whose pods are refused: withdrawn after a grace, kept out with growing delays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from di_api.timestamps import format_time
from di_operator.allocator.grants.granting import NOTHING_SAID, granted, step
from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.withdrawals.delays import FIRST_DELAY, spread
from di_operator.allocator.withdrawals.withdrawals import GRACE, LONGEST_MESSAGE, RefusedWrite
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import GANG, NOW, job, node, placed, pod, task

Object = dict[str, Any]
POLICIES: Mapping[str, type[Policy]] = {
    "fit": FitPolicy,
    "binpack": BinpackPolicy,
    "goodput": GoodputPolicy,
}
REFUSED = 'pods "x-learner-0" is forbidden: exceeded quota'
ALL = int(GRACE.total_seconds())
ALL_SLOTS = placed(learner="a a a a b b b b")


class Bench:
    """Jobs on two nodes of four slots, looked at by one policy; nothing makes their pods."""

    def __init__(
        self, *jobs: Object, policy: Policy | None = None, needs_dry_runs: bool = False
    ) -> None:
        self.reader = ClusterReader(read_spec, needs_dry_runs=needs_dry_runs)
        self.policy = policy or FitPolicy()
        self.now = NOW
        self.words = NOTHING_SAID
        nodes = [node("a", 4), node("b", 4)]
        self.reader.take(Changes.all(jobs=jobs, departed=[], nodes=nodes, pods=[], others=[]))

    def refuse(
        self,
        name: str,
        message: str = REFUSED,
        *,
        is_of_server: bool = False,
        is_dry_run: bool = False,
        generation: int = 1,
    ) -> None:
        write = RefusedWrite(
            uid=f"uid-{name}",
            message=message,
            at=self.now,
            is_of_server=is_of_server,
            is_dry_run=is_dry_run,
            generation=generation,
        )
        self.reader.take(Changes(refused=[write]))

    def pass_dry_run(self, name: str, generation: int = 1) -> None:
        self.reader.take(Changes(dry_runs={f"uid-{name}": generation}))

    def edit(self, body: Object, generation: int) -> None:
        metadata = {**body["metadata"], "generation": generation}
        self.reader.put_job({**body, "metadata": metadata})

    def see(self, *pods: Object) -> None:
        for found in pods:
            self.reader.put_pod(found)

    def look(self, after: float = 0) -> None:
        """Read the cluster, ask the policy about all jobs, and grant."""
        self.now += timedelta(seconds=after)
        found = self.reader.read(granted=granted(self.words), now=self.now)
        self.kept_out = found.kept_out
        self.next_due = found.next_due
        answer = self.policy.optimize(found.jobs, found.nodes, found.held)
        self.words = step(self.words, found, answer, whole=True, explain=True).words

    def has(self, name: str) -> NodeList:
        found = self.words.get(f"uid-{name}")
        return WAIT if found is None else found.has

    def is_kept_out(self, name: str) -> bool:
        return f"uid-{name}" in self.kept_out


def large(name: str, **fields: Any) -> Object:
    """A job that needs all slots of both nodes."""
    return job(name, task("learner", 8, minReplicas=8), phase="Pending", **fields)


@pytest.mark.proves(
    "allocation.md#a-grant-is-a-lease/lacks-pods-15-seconds-after-the-first",
    "events.md#of-its-life/grantwithdrawn",
)
@pytest.mark.parametrize("kind", [{}, GANG], ids=["preemptible", "gang"])
@pytest.mark.parametrize("name", POLICIES)
def test_a_refused_grant_is_withdrawn_and_others_get_the_nodes(name: str, kind: Object) -> None:
    bench = Bench(large("x", priority="high", **kind), large("y"), policy=POLICIES[name]())
    bench.look()
    assert (len(bench.has("x")), len(bench.has("y"))) == (8, 0)

    bench.refuse("x")
    bench.look(after=ALL - 1)
    assert len(bench.has("x")) == 8
    bench.look(after=1)
    assert (len(bench.has("x")), len(bench.has("y"))) == (0, 8)
    kept = bench.kept_out["uid-x"]
    assert (kept.key, kept.preemptible) == ("rl/x", not kind)
    assert kept.message == (
        "the grant was withdrawn 15 s after a write was refused; "
        f"the next try is at {format_time(bench.next_due or NOW)}: {REFUSED}"
    )


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/is-refused-again-at-the-next-try")
def test_the_delay_after_withdrawn_grants_doubles_up_to_ten_minutes() -> None:
    bench = Bench(large("x"))
    delays = []
    for _ in range(8):
        bench.look()
        assert len(bench.has("x")) == 8
        bench.refuse("x")
        bench.look(after=ALL)
        waited = 0
        while bench.is_kept_out("x"):
            bench.look(after=1)
            waited += 1
        delays.append(waited)
    longest = [15, 30, 60, 120, 240, 480, 600, 600]
    assert all(2 * most / 3 <= each <= most for each, most in zip(delays, longest, strict=True))


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/was-refused-because-the-api-server-or-a")
def test_failures_of_the_api_server_do_not_make_the_delay_grow() -> None:
    bench = Bench(large("x"))
    for _ in range(3):
        bench.look()
        bench.refuse("x", is_of_server=True)
        bench.look(after=ALL)
        assert bench.is_kept_out("x")
        bench.look(after=15)
        assert not bench.is_kept_out("x")


def test_a_grant_is_withdrawn_when_its_grace_ends_and_not_later() -> None:
    bench = Bench(large("x"))
    bench.look()
    bench.refuse("x")
    bench.look(after=5)
    assert bench.next_due == NOW + GRACE
    bench.refuse("x")
    bench.look(after=ALL - 5)
    assert bench.is_kept_out("x")
    assert bench.next_due == NOW + GRACE + spread(FIRST_DELAY, "uid-x")


def test_two_jobs_that_compete_for_a_quota_are_not_tried_together() -> None:
    delays = [spread(timedelta(seconds=30), f"uid-{number}") for number in range(100)]
    assert len(set(delays)) == 100
    assert all(timedelta(seconds=20) <= each <= timedelta(seconds=30) for each in delays)


def test_a_slow_job_without_a_refused_write_keeps_its_grant() -> None:
    bench = Bench(large("x"))
    bench.look()
    bench.look(after=3600)
    assert len(bench.has("x")) == 8


def learners(count: int, name: str = "x") -> list[Object]:
    found = [pod(name, "learner", "ab"[index // 4]) for index in range(count)]
    for index, body in enumerate(found):
        body["metadata"] |= {"name": f"{name}-learner-{index}", "uid": f"{name}-{index}"}
    return found


def test_a_pod_after_the_refusal_begins_the_grace_again() -> None:
    bench = Bench(large("x"))
    bench.look()
    bench.refuse("x")
    bench.look(after=5)
    bench.see(*learners(3))
    bench.look(after=5)
    # The other pods may wait for these; no write was refused since.
    bench.look(after=3600)
    assert len(bench.has("x")) == 8


def test_a_complete_job_forgets_what_was_refused_before() -> None:
    bench = Bench(large("x"))
    bench.look()
    bench.refuse("x")
    bench.see(*learners(8))
    bench.look(after=1)
    for body in learners(8):
        bench.reader.remove_pod(body)
    bench.look(after=3600)
    assert len(bench.has("x")) == 8


def test_a_job_with_too_few_pods_loses_the_whole_grant() -> None:
    bench = Bench(large("x"), large("y"))
    bench.look()
    bench.see(*learners(3))
    bench.refuse("x")
    bench.look(after=1)
    bench.look(after=ALL)
    assert bench.is_kept_out("x")
    # They are to be deleted, and still take slots.
    assert bench.words["uid-y"].wants
    assert not bench.has("y")


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/has-had-all-of-its-pods-and-cannot")
def test_a_job_that_has_run_is_not_given_up_for_one_refused_pod() -> None:
    placement = {"learner": ["a"] * 4 + ["b"] * 4}
    bench = Bench(job("x", task("learner", 8), status={"placement": placement}))
    bench.see(*learners(8))
    bench.look()
    bench.reader.remove_pod(learners(8)[7])
    bench.refuse("x")
    bench.look(after=1)
    bench.look(after=ALL)
    assert len(bench.has("x")) == 8
    for body in learners(7):
        bench.reader.remove_pod(body)
    bench.look(after=1)
    assert bench.is_kept_out("x")


def test_a_job_with_some_pods_stays_while_the_api_server_fails() -> None:
    bench = Bench(large("x"))
    bench.look()
    bench.see(*learners(3))
    bench.refuse("x", is_of_server=True)
    bench.look(after=1)
    bench.look(after=ALL)
    assert len(bench.has("x")) == 8


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/has-enough-pods-for-its-minimum-and-is")
@pytest.mark.parametrize("name", POLICIES)
def test_a_job_that_can_run_with_its_pods_keeps_them(name: str) -> None:
    growing = task("learner", 8, minReplicas=2, maxReplicas=8)
    bench = Bench(job("x", growing, phase="Pending"), policy=POLICIES[name]())
    bench.look()
    bench.words = {
        uid: replace(word, wants=ALL_SLOTS, has=ALL_SLOTS) for uid, word in bench.words.items()
    }
    bench.see(*learners(3))
    bench.refuse("x")
    bench.look(after=1)
    bench.look(after=ALL)
    assert len(bench.has("x")) == 3
    bench.look(after=9)
    assert len(bench.has("x")) == 3


def test_what_was_refused_is_forgotten_with_the_job() -> None:
    body = large("x")
    bench = Bench(body)
    bench.look()
    bench.refuse("x")
    bench.look(after=ALL)
    bench.reader.remove_job(body)
    bench.reader.put_job(body)
    bench.look()
    assert len(bench.has("x")) == 8


@pytest.mark.proves("allocation.md#a-grant-is-a-lease/gets-another-spec-while-it-is-kept-out")
def test_a_corrected_spec_ends_the_delay_of_a_withdrawn_grant() -> None:
    body = large("x")
    bench = Bench(body)
    for _ in range(3):
        bench.look()
        bench.refuse("x")
        bench.look(after=ALL)
        bench.look(after=1)
        assert bench.is_kept_out("x")
        bench.look(after=600)
    bench.refuse("x")
    bench.look(after=ALL)
    assert bench.is_kept_out("x")
    # Reports change the job, too, but not its spec.
    bench.edit(body, generation=1)
    bench.look(after=1)
    assert bench.is_kept_out("x")
    bench.edit(body, generation=2)
    bench.look(after=1)
    assert len(bench.has("x")) == 8
    # What it asks for now is judged as that of a new job.
    bench.refuse("x", generation=2)
    bench.look(after=ALL)
    assert bench.next_due == bench.now + spread(FIRST_DELAY, "uid-x")


def test_a_job_that_runs_does_not_end_its_delay_by_scaling_itself() -> None:
    growing = task("learner", 8, minReplicas=2)
    body = job("x", growing, phase="Pending")
    bench = Bench(body)
    bench.look()
    bench.see(*learners(3))
    bench.refuse("x")
    bench.look(after=1)
    bench.look(after=ALL)
    assert len(bench.has("x")) == 3
    bench.edit(body, generation=2)
    bench.look(after=1)
    assert len(bench.has("x")) == 3


def test_a_refusal_for_a_job_that_gave_up_its_nodes_does_not_count() -> None:
    bench = Bench(large("x"))
    bench.refuse("x")
    bench.look()
    bench.look(after=ALL)
    assert len(bench.has("x")) == 8


def test_a_long_message_of_the_api_server_is_cut() -> None:
    bench = Bench(large("x"))
    bench.look()
    bench.refuse("x", "m" * 5000)
    bench.look(after=ALL)
    assert bench.kept_out["uid-x"].message.count("m") < LONGEST_MESSAGE + 9
