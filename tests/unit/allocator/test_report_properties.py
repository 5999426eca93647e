"""Whatever a job reports within the bounds of a report, no policy fails on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from math import isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.profilings import read_profilings
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.sizing.batch_size import advised_batch
from di_operator.allocator.sizing.present_goodput import present_goodput
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import NOW, job, node, task

Object = dict[str, Any]
KINDS = ("fast", "slow")


def numbers(least: float, most: float) -> st.SearchStrategy[float]:
    """Numbers within bounds: the bounds themselves, ordinary ones, and those of any size."""
    ordinary = [x for x in (0.01, 0.5, 1.0, 3.0, 1e3) if least <= x <= most]
    return st.one_of(
        st.sampled_from([least, most, *ordinary]),
        st.floats(least, most, allow_nan=False, allow_infinity=False),
    )


def counts(least: int = 1) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(least, 8), st.integers(least, 10**12))


LARGEST = 1.7e308
AMOUNT, FRACTION, TIME = numbers(0.0, LARGEST), numbers(0.0, 1.0), numbers(1e-9, 1e6)
PERF = st.fixed_dictionaries(
    {
        **{f"{name}{link}": numbers(1e-12, 1e6) for name in ("alpha", "beta") for link in "CNR"},
        "gamma": numbers(1.0, 10.0),
    }
)
OBSERVATION = st.fixed_dictionaries(
    {"nodes": counts(), "replicas": counts(), "samples": counts()}
    | {"computing": TIME, "iteration": TIME},
    optional={"kind": st.sampled_from(KINDS)},
)
LOCAL: Mapping[str, st.SearchStrategy[Any]] = {"localBatchMin": counts(), "localBatchMax": counts()}
REPORTED_AT = st.sampled_from([0, 60, 10**4]).map(
    lambda age: (NOW - timedelta(seconds=age)).isoformat()
)
REPORT = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("step", "totalSteps", "envSteps", "maxEnvSteps"), AMOUNT),
        **dict.fromkeys(("envStepsPerSec", "trainStepsPerSec", "restoreSeconds"), AMOUNT),
        **dict.fromkeys(("learnerWaitFrac", "collectorWaitFrac"), FRACTION),
        **{key: counts() for key in ("learners", "batchSize", "initBatchSize", "maxBatchSize")},
        "collectors": counts(0),
        "samplesPerEnvStep": numbers(1e-9, LARGEST),
        **LOCAL,
        "reportedAt": REPORTED_AT,
        "perfParams": PERF,
        "gradParams": st.fixed_dictionaries(
            {"sqr": numbers(0.0, 1e300), "var": numbers(0.0, 1e300)}
        ),
        "observations": st.lists(OBSERVATION, max_size=4),
        "kind": st.sampled_from(KINDS),
        "byKind": st.dictionaries(
            st.sampled_from(KINDS),
            st.fixed_dictionaries({}, optional={**LOCAL, "perfParams": PERF}),
        ),
    },
)
POLICIES: Mapping[str, Policy] = {
    "fit": FitPolicy(),
    "binpack": BinpackPolicy(),
    "goodput": GoodputPolicy(),
    "goodput with shares": GoodputPolicy(shares={"rl": 2.0}),
}


def read(reports: list[Object], *, kinds: bool) -> tuple[dict[str, JobInfo], dict[str, NodeInfo]]:
    """Jobs with these reports, as policies see them, and nodes of some kinds."""
    bodies = []
    for number, report in enumerate(reports):
        tasks = [task("learner", 1, minReplicas=1, maxReplicas=8)]
        if number % 2 == 0:
            tasks.append(task("collector", 1, minReplicas=1, maxReplicas=6))
        bodies.append(job(f"j{number}", *tasks, status={"profilings": report}))
    nodes = [node(name, 4) for name in "abcd"]
    for number, body in enumerate(nodes):
        body["metadata"]["labels"] = {"kind": KINDS[number % 2]}
    reader = ClusterReader(read_spec, kind_label="kind" if kinds else None)
    reader.take(Changes.all(jobs=bodies, departed=[], nodes=nodes, pods=[], others=[]))
    found = reader.read(granted={}, now=NOW)
    assert found.unreadable == {}
    return dict(found.jobs), dict(found.nodes)


@pytest.mark.parametrize("name", POLICIES)
@given(reports=st.lists(REPORT, min_size=1, max_size=4), kinds=st.booleans())
def test_no_policy_fails_on_a_report_within_its_bounds(
    name: str, reports: list[Object], *, kinds: bool
) -> None:
    assert [read_profilings(report)[1] for report in reports] == [[]] * len(reports)
    if kinds and "shares" in name:
        return
    policy = POLICIES[name]
    jobs, nodes = read(reports, kinds=kinds)
    held: dict[str, NodeList] = {}
    for _ in range(2):
        held = policy.optimize(jobs, nodes, held)
        for key, placed in held.items():
            advised = advised_batch(jobs[key], placed, nodes)
            assert advised is None or advised > 0
            speed = present_goodput(jobs[key], placed, nodes)
            assert speed is None or (isfinite(speed) and speed >= 0)
    for each in jobs.values():
        policy.allocate(replace(each, age=0.0), nodes)
