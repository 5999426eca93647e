"""Standby pods at the end of a job, with an edited status, and in any history."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.lifecycle.job_types.tasks.standbys import MADE_ANEW_AFTER
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, task
from tests.unit.lifecycle.replicas.test_standby import (
    BY,
    FIRST,
    GROUP,
    LOSSES,
    NEXT,
    SECOND,
    places,
    ranks,
    warm,
)


def test_a_suspended_job_has_no_standby_pods() -> None:
    cluster = warm().fail(SECOND).settle().edit(suspend=True).settle()
    cluster.end_deleted().settle()
    assert not cluster.pods
    cluster.edit(suspend=False).settle()
    assert places(cluster) == {}
    cluster.run().settle()
    assert (cluster.phase, set(cluster.pods)) == ("Running", {FIRST, SECOND, BY})


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_a_finished_job_leaves_no_standby_pod(policy: str) -> None:
    cluster = warm(cleanPodPolicy=policy).fail(SECOND).settle().run().settle()
    cluster.succeed(FIRST, BY).settle()
    assert cluster.phase == "Succeeded"
    cluster.end_deleted().settle()
    assert NEXT not in cluster.pods
    assert (BY in cluster.pods) == (policy != "All")


def test_a_success_policy_ends_standby_pods() -> None:
    policy = {"tasks": ["work"], "gracePeriodSeconds": 60}
    cluster = warm(task("evaluator"), successPolicy=policy).succeed(FIRST, SECOND)
    cluster.settle().end_deleted().settle()
    assert cluster.phase == "Succeeded"
    assert BY not in cluster.pods


@pytest.mark.parametrize(
    "edited",
    [
        "x",
        {"work": 1},
        {"work": {"1": 7}},
        {"work": {"1": FIRST}},
        {"work": {"1": "x-other-standby-0"}},
        {"work": {"-1": BY, "x": BY, "99999": BY}},
        {"other": {"0": BY}},
    ],
)
def test_malformed_places_in_the_status_are_ignored(edited: object) -> None:
    cluster = warm()
    cluster.job["status"]["standIns"] = edited
    cluster._touch(cluster.job)
    writes = len(cluster.writes)
    cluster.settle()
    assert set(cluster.pods) == {FIRST, SECOND, BY}
    assert not [each for each in cluster.writes[writes:] if each != "status"]


def test_a_pod_with_two_places_is_corrected() -> None:
    cluster = warm()
    cluster.job["status"]["standIns"] = {"work": {"0": BY, "1": BY}}
    cluster._touch(cluster.job)
    cluster.settle().end_deleted().settle()
    cluster.run().settle()
    assert cluster.phase == "Running"
    assert len(set(ranks(cluster).values())) == len(ranks(cluster)) == 2


def test_a_wiped_status_makes_the_replicas_again() -> None:
    cluster = warm().fail(SECOND).settle()
    del cluster.job["status"]
    for _ in range(3):
        cluster.settle().end_deleted().settle()
        cluster.run()
    cluster.settle()
    assert (cluster.phase, {FIRST, SECOND}) == ("Running", set(ranks(cluster)))
    assert len(set(ranks(cluster).values())) == 2


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("writes", range(1, 8))
def test_a_crash_at_any_write_repeats_no_promotion(how: str, writes: int) -> None:
    cluster = warm(of={"processGroup": GROUP, "minReplicas": 2, "maxReplicas": 4})
    cluster.lose(SECOND, how)
    cluster.die_after(writes)
    cluster.settle().end_deleted().settle()
    assert cluster.phase == "Running"
    assert cluster.status["restarts"] + cluster.status["reschedules"] == 1
    assert (places(cluster), ranks(cluster)) == ({"work": {"1": BY}}, {FIRST: "0", BY: "1"})
    assert set(cluster.pods) == {FIRST, BY, NEXT}
    assert cluster.status["groups"]["work"]["generation"] == 2


STEPS = st.sampled_from(
    ["settle", "reconcile", "crash", "run", "end", "wait", "grow", "shrink", *LOSSES]
)


@given(steps=st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=25))
def test_each_place_has_one_pod_after_any_history(steps: list[tuple[str, int]]) -> None:
    cluster = warm(backoffLimit=999)
    for step, number in steps:
        _take(cluster, step, number)
    for _ in range(6):
        cluster.end_deleted().settle()
        cluster.run(*(n for n, pod in cluster.pods.items() if pod["status"]["phase"] != "Failed"))
        cluster.wait(MADE_ANEW_AFTER).settle()
    assert cluster.phase == "Running"
    replicas = cluster.job["spec"]["tasks"][0]["replicas"]
    assert len(set(ranks(cluster).values())) == replicas
    served = {f"x-work-{i}" for i in range(replicas)}
    for index, pod in places(cluster).get("work", {}).items():
        served.remove(f"x-work-{index}")
        served.add(pod)
    assert set(ranks(cluster)) == served
    others = set(cluster.pods) - served
    assert len(others) == 1
    assert all(name.startswith("x-work-standby-") for name in others)


def is_ending(cluster: ClusterModel, name: str) -> bool:
    return "deletionTimestamp" in cluster.pods[name]["metadata"]


def is_running(cluster: ClusterModel, name: str) -> bool:
    return cluster.pods[name]["status"]["phase"] == "Running" and not is_ending(cluster, name)


def _take(cluster: ClusterModel, step: str, number: int) -> None:
    names = sorted(cluster.pods)
    chosen = names[number % len(names)] if names else None
    match step:
        case "settle":
            cluster.settle()
        case "reconcile":
            cluster.reconcile()
        case "crash":
            with suppress(Crash):
                cluster.reconcile(crash_after=1 + number % 3)
        case "run":
            waiting = [n for n in names if cluster.pods[n]["status"]["phase"] == "Pending"]
            for name in waiting:
                cluster.run(name)
        case "end":
            for name in filter(lambda name: is_ending(cluster, name), names):
                cluster.end(name)
        case "wait":
            cluster.pass_time(10.0 * number)
        case "grow" | "shrink":
            now = cluster.job["spec"]["tasks"][0]["replicas"]
            cluster.scale("work", min(4, max(1, now + (1 if step == "grow" else -1))))
        case _ if chosen is not None and is_running(cluster, chosen):
            cluster.lose(chosen, step)
