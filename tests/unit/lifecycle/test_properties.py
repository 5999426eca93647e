"""What holds whatever happens: histories of pods, users and crashes in any order."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.observed.completed import read_completed
from di_operator.lifecycle.read import read_snapshot
from tests.unit.lifecycle.cluster_model import SETTINGS, ClusterModel, Crash, job, task
from tests.unit.lifecycle.kubelet_model import START

FAST = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
PHASES = ("Pending", "Starting", "Running", "Restarting", "Rescheduling", "Succeeded", "Failed")

KUBELET = ("run", "run all", "fail", "evict", "succeed", "delete", "vanish", "end")
OTHERS = ("scale", "suspend", "resume", "reconcile", "reconcile", "crash")
# What happens, and a number that picks the pod, the size or the write.
STEPS = st.lists(
    st.tuples(st.sampled_from(KUBELET + OTHERS), st.integers(0, 9)), min_size=1, max_size=16
)


def unfinished(cluster: ClusterModel) -> list[str]:
    """Pods the kubelet still runs."""
    return [
        name
        for name, pod in cluster.pods.items()
        if pod["status"]["phase"] in ("Pending", "Running")
    ]


class History:
    """A job that lives through random steps; what must hold is checked after each."""

    def __init__(self, *, backoff_limit: int, in_place: bool = False) -> None:
        rules = [{"action": "RestartInPlace"}] if in_place else []
        policy: dict[str, Any] = {"failurePolicy": {"rules": rules}} if in_place else {}
        tasks = task("learner"), task("collector", 2)
        self.cluster = ClusterModel(job(*tasks, backoffLimit=backoff_limit, **policy))
        self.failures = 0
        self.largest = 3

    def reach_running(self) -> None:
        """Begin with a job that runs."""
        self.cluster.settle()
        self.cluster.run()
        self.cluster.settle()

    def live_through(self, steps: list[tuple[str, int]]) -> None:
        """Take the steps."""
        for step, number in steps:
            if step in KUBELET:
                self._pod_step(step, number)
            else:
                self._job_step(step, number)
            self.cluster.pass_time(number)
            self._check()

    def _pod_step(self, step: str, number: int) -> None:
        cluster = self.cluster
        names = sorted(unfinished(cluster))
        if not names:
            return
        name = names[number % len(names)]
        terminating = "deletionTimestamp" in _meta(cluster, name)
        match step:
            case "run all":
                for other in names:
                    if "deletionTimestamp" not in _meta(cluster, other):
                        cluster.run(other)
            case "run" if not terminating:
                cluster.run(name)
            case "succeed" if not terminating:
                cluster.succeed(name)
            case "fail" if not terminating:
                self._fail(name, number)
            case "evict" if not terminating:
                cluster.evict(name)
            case "delete":
                cluster.delete_pod(name)
            case "vanish":
                cluster.delete_pod(name, force=True)
            case "end" if terminating:
                cluster.end(name)
            case _:
                pass  # a pod that is being deleted goes its own way

    def _fail(self, name: str, number: int) -> None:
        """A container fails; the kubelet starts it again, now or later, where it may."""
        self.failures += 1
        if not _may_go_on(self.cluster, name):
            self.cluster.fail(name)
        elif number % 2:
            self.cluster.crash(name)
        else:
            self.cluster.restart(name)

    def _job_step(self, step: str, number: int) -> None:
        cluster = self.cluster
        match step:
            case "scale":
                cluster.scale("collector", 1 + number % 4)
                self.largest = max(self.largest, 2 + number % 4)
            case "suspend":
                cluster.edit(suspend=True)
            case "resume":
                cluster.edit(suspend=False)
            case "reconcile":
                cluster.reconcile()
            case _:  # a crash after the first, second or third write
                with suppress(Crash):
                    cluster.reconcile(crash_after=1 + number % 3)

    def _check(self) -> None:
        cluster = self.cluster
        assert cluster.most_live <= self.largest
        assert cluster.status.get("restarts", 0) <= self.failures
        if cluster.status:
            true = [
                condition["type"]
                for condition in cluster.status["conditions"]
                if condition["status"] == "True" and condition["type"] in PHASES
            ]
            assert true == [cluster.phase]
        for name, done in read_completed(cluster.status.get("completedIndexes")).items():
            pods = (cluster.pods.get(f"x-{name}-{index}") for index in done)
            assert {pod["status"]["phase"] for pod in pods if pod is not None} <= {"Succeeded"}
        for name, pod in cluster.pods.items():
            rank = int(pod["metadata"]["annotations"]["diengine/rank"])
            nodes = cluster.env(name)["DI_NODES"].split(",")
            assert cluster.env(name)["DI_RANK"] == str(rank)
            assert nodes[rank] == f"{name}.di-x.rl.svc.cluster.local"

    def let_everything_go_well(self) -> None:
        """Resume, end what is ending, run what is there, until the job has ended."""
        cluster = self.cluster
        cluster.edit(suspend=False)
        for _ in range(12):
            cluster.pass_time(10).settle().end_deleted().settle()
            if cluster.phase == "Running":
                cluster.succeed()
            elif cluster.phase in ("Succeeded", "Failed"):
                return
            else:
                cluster.run(*unfinished(cluster))
        raise AssertionError(f"still {cluster.phase}: {cluster.status}")


def _may_go_on(cluster: ClusterModel, name: str) -> bool:
    """Whether the pod runs, and its kubelet starts its container again."""
    pod = cluster.pods[name]
    return (pod["status"]["phase"], pod["spec"]["restartPolicy"]) == ("Running", "OnFailure")


def _meta(cluster: ClusterModel, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = cluster.pods[name]["metadata"]
    return metadata


@FAST
@given(STEPS, st.integers(0, 3), st.booleans(), st.booleans())
def test_any_history_ends_well(
    steps: list[tuple[str, int]], backoff_limit: int, from_running: bool, in_place: bool
) -> None:
    history = History(backoff_limit=backoff_limit, in_place=in_place)
    if from_running:
        history.reach_running()
    history.live_through(steps)
    history.let_everything_go_well()
    cluster = history.cluster
    if history.failures <= backoff_limit:
        assert cluster.phase == "Succeeded"
    assert cluster.status["restarts"] <= min(backoff_limit, history.failures)
    assert ("Service", "di-x") not in cluster.objects
    written = len(cluster.writes)
    cluster.settle()
    assert len(cluster.writes) == written


@FAST
@given(STEPS, st.booleans())
def test_deciding_twice_is_deciding_once(steps: list[tuple[str, int]], in_place: bool) -> None:
    history = History(backoff_limit=3, in_place=in_place)
    history.reach_running()
    history.live_through(steps)
    history.cluster.settle()
    again = history.cluster.decide()
    assert again.actions == ()
    assert again.status is None
    assert again.events == ()


@pytest.mark.proves("lifecycle.md#order-of-writes/*", "lifecycle.md#counted-exactly-once")
@FAST
@given(st.integers(1, 12), st.sampled_from(["learner", "collector"]))
def test_a_crash_after_any_write_changes_neither_counts_nor_objects(k: int, failing: str) -> None:
    """Start, fail, restart, with one crash after the k-th write and no reply lost or all."""

    def run(crash_at: int | None) -> ClusterModel:
        cluster = ClusterModel(job())
        for _ in range(3):
            _settle_with_crash(cluster, crash_at)
            if cluster.status.get("restarts") == 0:
                cluster.run()
                _settle_with_crash(cluster, crash_at)
                cluster.fail(f"x-{failing}-0")
        return cluster

    clean, crashed = run(None), run(k)
    assert crashed.phase == clean.phase
    assert crashed.status["restarts"] == clean.status["restarts"] == 1
    assert crashed.status["reschedules"] == clean.status["reschedules"] == 0
    assert sorted(crashed.pods) == sorted(clean.pods)
    assert [w for w in sorted(crashed.writes) if w != "status"] == [
        w for w in sorted(clean.writes) if w != "status"
    ]


def _settle_with_crash(cluster: ClusterModel, crash_at: int | None) -> None:
    if crash_at is not None:
        with suppress(Crash):
            cluster.reconcile(crash_after=crash_at)
    cluster.settle()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(PHASES) | JSON,
        "conditions": JSON
        | st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(PHASES) | JSON, "status": JSON, "reason": JSON}
            )
        ),
        "restarts": JSON,
        "taskStatus": JSON,
        "completedIndexes": JSON | st.dictionaries(st.sampled_from(["learner", "collector"]), JSON),
        "failures": JSON | st.lists(st.fixed_dictionaries({"uid": JSON})),
        "startTime": JSON | st.just("2026-01-01T11:00:00Z"),
        "completionTimestamp": JSON,
    },
)


@FAST
@given(
    st.fixed_dictionaries({"tasks": JSON}, optional={"backoffLimit": JSON}) | JSON, STATUS | JSON
)
def test_no_spec_and_no_status_makes_it_raise(spec: Any, status: Any) -> None:
    body = job()
    body["spec"] = spec
    body["status"] = status
    decision = decide(read_snapshot(body), START, SETTINGS)
    assert decision.status is None or decision.status["phase"] in PHASES


@FAST
@given(STATUS)
def test_any_status_of_a_good_job_is_survived(status: dict[str, Any]) -> None:
    cluster = ClusterModel({**job(), "status": status})
    finished = status.get("phase") in ("Succeeded", "Failed")
    cluster.settle()
    if not finished:
        cluster.run().settle()
        assert cluster.phase in ("Running", "Failed")
