"""A task that is restarted as a whole: pods made before it are outdated, and nothing else is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from di_api.phase import Phase
from di_operator.lifecycle.build_status import conclude
from di_operator.lifecycle.observed.verdict import Verdict
from tests.unit.lifecycle import test_coordinated
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, running, task
from tests.unit.lifecycle.test_coordinated import FIRST, SECOND, replica

NOTE = "diengine/restart-attempt"
LEARNERS = ("x-learner-0", "x-learner-1")
TASKS = (task("learner", 2), task("collector", 2))


def restart(cluster: ClusterModel, *tasks: str, phase: Phase | None = Phase.RESTARTING) -> None:
    """A policy restarts these tasks, and the status is written."""
    snapshot = cluster.snapshot()
    phase = phase or Phase(cluster.status["phase"])
    verdict = Verdict(phase=phase, message="anew", restarted=frozenset(tasks))
    decision = conclude(snapshot, verdict, cluster.now)
    assert decision.status is not None
    cluster.patch_status(decision.status)


def attempts(cluster: ClusterModel) -> dict[str, str | None]:
    return {
        name: pod["metadata"]["annotations"].get(NOTE) for name, pod in sorted(cluster.pods.items())
    }


def end_deleted(cluster: ClusterModel) -> list[str]:
    """The kubelet ends what is deleted."""
    gone = cluster.ending
    for name in gone:
        cluster.end(name)
    return sorted(gone)


def test_pods_have_no_attempt_before_the_first_restart() -> None:
    cluster = running(*TASKS)
    assert set(attempts(cluster).values()) == {None}
    assert "restartAttempts" not in cluster.status


@pytest.mark.proves("lifecycle.md#restarting-a-whole-task")
def test_a_restart_replaces_all_pods_of_the_task_and_no_other() -> None:
    cluster = running(*TASKS)
    others = cluster.uids
    restart(cluster, "learner")
    assert cluster.status["restartAttempts"] == {"learner": 1}
    cluster.settle()
    assert end_deleted(cluster) == [*LEARNERS]
    cluster.settle()
    assert attempts(cluster) == {
        **dict.fromkeys(("x-collector-0", "x-collector-1")),
        **dict.fromkeys(LEARNERS, "1"),
    }
    uids = cluster.uids
    assert {name for name in uids if uids[name] != others[name]} == {*LEARNERS}
    cluster.run().settle()
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))
    assert cluster.env("x-learner-0")["DI_RANK"] == "0"


@pytest.mark.proves("lifecycle.md#restarting-a-whole-task")
def test_no_new_member_is_made_before_the_last_old_one_is_gone() -> None:
    cluster = running(*TASKS)
    restart(cluster, "learner")
    cluster.settle().end("x-learner-0").settle()
    assert "x-learner-0" not in cluster.pods
    assert cluster.phase == "Restarting"
    cluster.end("x-learner-1").settle()
    assert [attempts(cluster)[name] for name in LEARNERS] == ["1", "1"]


def test_nothing_that_an_outdated_pod_does_counts() -> None:
    cluster = running(*TASKS, backoffLimit=0)
    restart(cluster, "learner")
    cluster.fail("x-learner-0").succeed("x-learner-1").settle()
    # Ended pods are gone with their deletion.
    assert [attempts(cluster)[name] for name in LEARNERS] == ["1", "1"]
    assert (cluster.phase, cluster.counts) == ("Starting", (0, 0))
    assert "failures" not in cluster.status


def test_an_outdated_pod_on_a_lost_node_holds_nothing_up() -> None:
    cluster = running(*TASKS)
    restart(cluster, "learner")
    cluster.settle()
    cluster.end("x-learner-1")
    gone = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    cluster.say("x-learner-0", phase="Running", conditions=[gone]).pass_time(61)
    cluster.settle()
    assert [attempts(cluster)[name] for name in LEARNERS] == ["1", "1"]


@pytest.mark.parametrize("crash_after", range(1, 6))
def test_a_crash_repeats_no_restart(crash_after: int) -> None:
    cluster = running(*TASKS)
    restart(cluster, "learner")
    for name in LEARNERS:
        cluster.fail(name)
    with suppress(Crash):
        cluster.reconcile(crash_after=crash_after)
    cluster.settle()
    assert cluster.status["restartAttempts"] == {"learner": 1}
    assert [attempts(cluster)[name] for name in LEARNERS] == ["1", "1"]


@pytest.mark.parametrize("text", ["2", "99999", "x", "-1", "", "9" * 5000])
def test_a_pod_of_an_unknown_attempt_is_left_alone(text: str) -> None:
    cluster = running(*TASKS).patch_status({"restartAttempts": {"learner": 1}})
    for name in LEARNERS:
        cluster.pods[name]["metadata"]["annotations"][NOTE] = text
    cluster.settle()
    assert not end_deleted(cluster)
    assert cluster.phase == "Running"


@pytest.mark.parametrize("written", [None, 3, "x", {"learner": "x"}, {"learner": -1}, [1]])
def test_a_count_that_cannot_be_read_is_none(written: Any) -> None:
    cluster = running(*TASKS)
    cluster.job["status"]["restartAttempts"] = written
    cluster.settle()
    assert not end_deleted(cluster)
    restart(cluster, "learner")
    assert cluster.status["restartAttempts"]["learner"] == 1


def test_a_suspended_job_ends_its_outdated_pods_too() -> None:
    cluster = running(*TASKS)
    restart(cluster, "learner")
    cluster.edit(suspend=True).settle()
    end_deleted(cluster)
    assert not cluster.pods
    cluster.edit(suspend=False).settle()
    assert [attempts(cluster)[name] for name in LEARNERS] == ["1", "1"]


def test_a_role_of_a_coordinated_job_restarts_in_the_same_way() -> None:
    cluster = test_coordinated.running(
        replica(FIRST), replica(SECOND), replica("x-learner-bbbbb", "learner")
    )
    restart(cluster, "collector", phase=None)
    cluster.settle()
    assert end_deleted(cluster) == [FIRST, SECOND]
    cluster.settle()
    assert attempts(cluster) == {
        **dict.fromkeys((FIRST, SECOND), "1"),
        **dict.fromkeys(("x-coordinator", "x-learner-bbbbb")),
    }
    assert (cluster.phase, cluster.counts) == ("Running", (0, 0))


def test_a_coordinator_that_is_restarted_has_not_failed() -> None:
    cluster = test_coordinated.running(replica(FIRST))
    restart(cluster, "coordinator", "collector")
    cluster.fail("x-coordinator").settle()
    assert end_deleted(cluster) == [FIRST]
    cluster.settle()
    assert attempts(cluster) == {FIRST: "1", "x-coordinator": "1"}
    cluster.run().settle()
    assert (cluster.phase, cluster.status["reschedules"]) == ("Running", 0)
