"""Gangs beside the guarantees of other namespaces: which of those that wait are barred."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from di_operator.allocator.admission.guarantees import bar_gangs
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import Constraints
from di_operator.allocator.model.resources import UNIT
from di_operator.allocator.sharing.queues import read_queues
from tests.unit.allocator.queues.test_shares import wants
from tests.unit.allocator.worlds import GPU, by_key, job, node, nodes, task

IN_A = Constraints(selector=(("pool", "a"),))
FPGA = "example.org/fpga"
Queued = Mapping[str, Mapping[str, Any]]


def gang(key: str, gpus: int, **options: Any) -> JobInfo:
    return job(key, task(gpus, gpu=1), preemptible=False, gang=True, **options)


def barred(found: Mapping[str, JobInfo]) -> dict[str, str]:
    """The message of each barred job."""
    return {
        key: one.account.barred
        for key, one in found.items()
        if one.account is not None and one.account.barred
    }


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ({"a": {"guarantee": {GPU: 4}}}, {"b/third"}),
        ({"a": {"guarantee": {GPU: 4}}, "b": {"guarantee": {GPU: 4}}}, {"b/third"}),
        ({"a": {"guarantee": {GPU: 3}}, "b": {"guarantee": {GPU: 4}}}, set()),
        ({"a": {"guarantee": {GPU: 4}}, "c": {"guarantee": {"cpu": 1}}}, {"b/third"}),
    ],
    ids=["none of its own", "used up", "not used up", "of another resource"],
)
def test_gangs_of_a_namespace_are_counted_together(queues: Queued, expected: set[str]) -> None:
    jobs = by_key(gang("b/first", 2, age=9.0), gang("b/second", 2, age=8.0), gang("b/third", 1))
    found = bar_gangs(jobs, {}, nodes(8, gpu=1, cpu=1), read_queues(queues), {})
    assert barred(found).keys() == expected


def test_a_gang_that_starts_first_counts_on_all_nodes_that_it_can_use() -> None:
    pools = {name: node(name, labels={"pool": name}, gpu=8) for name in "ab"}
    in_a = replace(task(3, gpu=1), constraints=IN_A)
    second = job("b/second", in_a, preemptible=False, gang=True)
    queues = read_queues({"a": {"guarantee": {GPU: 4}}})
    for first, expected in ((1, set[str]()), (2, {"b/second"})):
        jobs = by_key(gang("b/first", first, age=9.0), second)
        assert barred(bar_gangs(jobs, {}, pools, queues, {})).keys() == expected


@pytest.mark.parametrize("moves", [True, False], ids=["preemptible", "gang"])
def test_only_running_jobs_that_never_move_count_against_guarantees(*, moves: bool) -> None:
    running = wants("b/runs", 4, 4) if moves else gang("b/runs", 4)
    held = {"b/runs": NodeList.of({"learner": ("n000",) * 4})}
    queues = read_queues({"a": {"guarantee": {GPU: 4}}})
    found = bar_gangs(by_key(running, gang("b/waits", 1)), held, nodes(1, gpu=8), queues, {})
    assert bool(barred(found)) is not moves


def test_a_guaranteed_resource_that_no_node_has_bars_a_gang_that_asks_for_it() -> None:
    both = (task(1, gpu=1), replace(task(1, name="collector"), resources={FPGA: UNIT}))
    large = job("b/x", *both, preemptible=False, gang=True)
    queues = read_queues({"a": {"guarantee": {FPGA: 1}}})
    found = bar_gangs(by_key(large, gang("b/y", 8)), {}, nodes(8, gpu=1), queues, {})
    assert barred(found) == {
        "b/x": f"it cannot start: other namespaces are guaranteed too much of the 0 {FPGA} on the"
        " nodes that it can use"
    }


def test_gangs_after_one_that_fits_no_node_are_barred_as_well() -> None:
    nowhere = job("b/first", task(1, gpu=9), preemptible=False, gang=True, age=9.0)
    queues = read_queues({"a": {"guarantee": {GPU: 4}}})
    jobs = by_key(nowhere, gang("b/second", 5))
    assert barred(bar_gangs(jobs, {}, nodes(8, gpu=1), queues, {})).keys() == {"b/second"}


@pytest.mark.parametrize(("cpu", "is_barred"), [(4.0, False), (4.001, True)])
def test_guarantees_hold_to_a_thousandth(*, cpu: float, is_barred: bool) -> None:
    queues = read_queues({"a": {"guarantee": {"cpu": 4}}})
    one = job("b/x", task(1, cpu=cpu), preemptible=False, gang=True)
    assert bool(barred(bar_gangs(by_key(one), {}, nodes(1, cpu=8), queues, {}))) is is_barred
