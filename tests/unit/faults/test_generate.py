"""The fault plans that are made from the recorded traces."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.faults import trace
from tools.faults.generate import ERRORS, generate, part_of_day, sample
from tools.faults.plan import Kill, Plan, Refuse
from tools.faults.workloads import STORIES

TRACES = trace.load(STORIES)
PLANS = generate(TRACES)


def test_every_workload_has_a_trace_and_every_plan_is_another() -> None:
    assert list(TRACES) == list(STORIES)
    assert len({plan.id for plan in PLANS}) == len(PLANS) >= 300


def test_a_crash_follows_every_write_with_and_without_its_answer() -> None:
    kills = Counter(
        (plan.workload, fault.at, fault.do.answered)
        for plan in PLANS
        if plan.rule == "intermediate"
        for fault in plan.faults
        if isinstance(fault.do, Kill)
    )
    wanted = [
        (workload, write, answered)
        for workload, found in TRACES.items()
        for write in found.writes
        if write.what != "leases"
        for answered in (False, True)
    ]
    assert kills == dict.fromkeys(wanted, 1)


def test_every_request_meets_every_error() -> None:
    errors = Counter(
        (plan.workload, fault.at)
        for plan in PLANS
        for fault in plan.faults
        if isinstance(fault.do, Refuse)
    )
    wanted = [(workload, one) for workload, found in TRACES.items() for one in found.requests]
    assert errors == dict.fromkeys(wanted, len(ERRORS))


def test_an_invalid_object_fails_its_job_unless_its_coordinator_runs() -> None:
    invalid = {
        (plan.workload, str(fault.at)): plan.ends
        for plan in PLANS
        for fault in plan.faults
        if fault.do == Refuse(422) and str(fault.at).startswith("create-pods")
    }
    assert invalid["success", "create-pods-a-work-0#1"] == "InvalidTemplate"
    assert invalid["ask", "create-pods-a-coordinator#1"] == "InvalidTemplate"
    assert invalid["ask", "create-pods-a-collector-1#1"] is None
    # They are made together there.
    assert invalid["replace", "create-pods-a-collector-1#1"] == "InvalidTemplate"
    assert invalid["replace", "create-pods-a-collector-1#2"] is None


def test_node_lists_that_are_refused_end_no_job() -> None:
    refused = [
        plan
        for plan in PLANS
        for fault in plan.faults
        if fault.do == Refuse(422) and "-configmaps-di-a#" in f"-{fault.at}"
    ]
    found = {
        str(each.faults[0].at): (each.ends, "NodeListsTooLong" in each.tolerates)
        for each in refused
    }
    assert found["create-configmaps-di-a#1"] == found["update-configmaps-di-a#4"] == (None, True)
    assert found["delete-configmaps-di-a#1"] == (None, False)


def test_the_sample_is_stable_and_has_each_rule_of_each_workload() -> None:
    chosen = sample(PLANS, 90)
    assert chosen == sample(PLANS, 90)
    assert len(set(chosen)) == len(chosen) >= 60
    assert {(plan.workload, plan.rule) for plan in chosen} == {
        (plan.workload, plan.rule) for plan in PLANS
    }


@pytest.mark.parametrize("size", [1, 7, 20, 60])
def test_the_parts_of_following_days_have_every_plan_once(size: int) -> None:
    plans = tuple(Plan(workload=str(number)) for number in range(20))
    days = -(-len(plans) // size)
    parts = [part_of_day(plans, size, day) for day in range(738_000, 738_000 + days)]
    assert sorted(plan.id for part in parts for plan in part) == sorted(plan.id for plan in plans)
    assert max(map(len, parts)) <= size
