"""The table of phases: from where, what is seen, to where. The ids read as sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from di_api.kube.resources import PODS
from di_api.phase import Phase
from di_operator.lifecycle.faults import NameTaken, QuotaExceeded, TemplateRefused
from di_operator.lifecycle.phases import TRANSITIONS, IllegalTransition, check_transition
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task


def new(**spec: Any) -> ClusterModel:
    return ClusterModel(job(**spec))


def starting(**spec: Any) -> ClusterModel:
    cluster = new(**spec)
    cluster.settle()
    return cluster


def restarting() -> ClusterModel:
    cluster = running()
    cluster.fail("x-learner-0")
    cluster.reconcile()
    return cluster


def rescheduling() -> ClusterModel:
    cluster = running()
    cluster.scale("collector", 4)
    cluster.reconcile()
    return cluster


def suspended() -> ClusterModel:
    cluster = running()
    cluster.edit(suspend=True)
    cluster.reconcile()
    return cluster


def then(*steps: Callable[[ClusterModel], object]) -> Callable[[ClusterModel], None]:
    """One thing after the other."""

    def take(cluster: ClusterModel) -> None:
        for step in steps:
            step(cluster)

    return take


def end_all(cluster: ClusterModel) -> None:
    for name in list(cluster.pods):
        cluster.end(name)


def ended(how: Callable[[ClusterModel], None]) -> ClusterModel:
    cluster = running(backoffLimit=0)
    how(cluster)
    cluster.reconcile()
    return cluster


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    sentence: str
    start: Callable[[], ClusterModel]
    seen: Callable[[ClusterModel], object]
    phase: Phase
    reason: str
    restarts: int = 0
    reschedules: int = 0


TABLE = (
    Row(
        "a new job whose pods can all be created is Starting at once",
        new,
        lambda c: None,
        Phase.STARTING,
        "JobStarting",
    ),
    Row(
        "a new job that is suspended is Pending",
        lambda: new(suspend=True),
        lambda c: None,
        Phase.PENDING,
        "JobSuspended",
    ),
    Row(
        "a new job whose pods wait for another task is Pending",
        lambda: ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"]))),
        lambda c: None,
        Phase.PENDING,
        "JobPending",
    ),
    Row(
        "a new job with an invalid spec is Failed",
        lambda: ClusterModel(job(task("learner", 0))),
        lambda c: None,
        Phase.FAILED,
        "InvalidSpec",
    ),
    Row(
        "a new job over its quota is Pending",
        new,
        lambda c: setattr(c, "refuse_pods", QuotaExceeded(message="exceeded quota: pods")),
        Phase.PENDING,
        "QuotaExceeded",
    ),
    Row(
        "a new job whose template the API server refuses is Failed",
        new,
        lambda c: setattr(c, "refuse_pods", TemplateRefused(message="image: Required value")),
        Phase.FAILED,
        "InvalidTemplate",
    ),
    Row(
        "a new job whose pod name is taken is Failed",
        new,
        lambda c: setattr(
            c,
            "refuse_pods",
            NameTaken(
                resource=PODS, found={"metadata": {"name": "x-learner-0", "namespace": "rl"}}
            ),
        ),
        Phase.FAILED,
        "PodNameConflict",
    ),
    Row(
        "a Starting job with one pod not ready stays Starting",
        starting,
        lambda c: c.run("x-learner-0", "x-collector-0", "x-collector-1"),
        Phase.STARTING,
        "JobStarting",
    ),
    Row(
        "a Starting job with all pods ready is Running",
        starting,
        lambda c: c.run(),
        Phase.RUNNING,
        "JobRunning",
    ),
    Row(
        "a Starting job with some pods ready and the others succeeded is Running",
        starting,
        then(lambda c: c.run(), lambda c: c.succeed("x-learner-0")),
        Phase.RUNNING,
        "JobRunning",
    ),
    Row(
        "a Starting job whose pods have all succeeded is Running before it is Succeeded",
        starting,
        lambda c: c.succeed(),
        Phase.RUNNING,
        "JobRunning",
    ),
    Row(
        "a Running job with some pods succeeded stays Running",
        running,
        lambda c: c.succeed("x-learner-0", "x-collector-0", "x-collector-1"),
        Phase.RUNNING,
        "JobRunning",
    ),
    Row(
        "a Running job with a pod that is no longer ready stays Running",
        running,
        lambda c: c._set("x-learner-0", {"phase": "Running"}),
        Phase.RUNNING,
        "JobRunning",
    ),
    Row(
        "a Running job whose pods have all succeeded is Succeeded",
        running,
        lambda c: c.succeed(),
        Phase.SUCCEEDED,
        "JobSucceeded",
    ),
    Row(
        "a Starting job with a failed pod is Restarting",
        starting,
        lambda c: c.fail("x-learner-0"),
        Phase.RESTARTING,
        "JobRestarting",
        restarts=1,
    ),
    Row(
        "a Running job with a failed pod is Restarting",
        running,
        lambda c: c.fail("x-learner-0"),
        Phase.RESTARTING,
        "JobRestarting",
        restarts=1,
    ),
    Row(
        "failures seen together are one restart",
        running,
        lambda c: c.fail("x-learner-0", "x-collector-0", "x-collector-2"),
        Phase.RESTARTING,
        "JobRestarting",
        restarts=1,
    ),
    Row(
        "a failure without restarts left is Failed",
        lambda: running(backoffLimit=0),
        lambda c: c.fail("x-learner-0"),
        Phase.FAILED,
        "JobFailed",
    ),
    Row(
        "a failure while Restarting is another restart",
        restarting,
        lambda c: c.fail("x-collector-1"),
        Phase.RESTARTING,
        "JobRestarting",
        restarts=2,
    ),
    Row(
        "a failure while Rescheduling is a restart",
        rescheduling,
        lambda c: c.fail("x-collector-1"),
        Phase.RESTARTING,
        "JobRestarting",
        restarts=1,
        reschedules=1,
    ),
    Row(
        "a failure beside an eviction counts both",
        running,
        then(lambda c: c.fail("x-learner-0"), lambda c: c.evict("x-collector-0")),
        Phase.RESTARTING,
        "JobRestarting",
        restarts=1,
        reschedules=1,
    ),
    Row(
        "an evicted pod is no failure",
        lambda: running(backoffLimit=0),
        lambda c: c.evict("x-learner-0"),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a pod that found no room on its node is no failure",
        lambda: running(backoffLimit=0),
        lambda c: c.evict("x-learner-0", "OutOfcpu"),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a pod with the condition DisruptionTarget is no failure",
        lambda: running(backoffLimit=0),
        lambda c: c._set(
            "x-learner-0",
            {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            },
        ),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a pod that somebody deletes is no failure",
        lambda: running(backoffLimit=0),
        lambda c: c.delete_pod("x-learner-0"),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a pod that fails while it is deleted is no failure",
        lambda: running(backoffLimit=0),
        then(lambda c: c.delete_pod("x-learner-0"), lambda c: c.fail("x-learner-0", code=143)),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a pod that vanished is no failure",
        lambda: running(backoffLimit=0),
        lambda c: c.delete_pod("x-learner-0", force=True),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a Running job scaled up is Rescheduling",
        running,
        lambda c: c.scale("collector", 5),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a Running job scaled down is Rescheduling",
        running,
        lambda c: c.scale("collector", 1),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a Starting job scaled up is Rescheduling",
        starting,
        lambda c: c.scale("collector", 5),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=1,
    ),
    Row(
        "a second change while Rescheduling is counted too",
        rescheduling,
        lambda c: c.scale("collector", 2),
        Phase.RESCHEDULING,
        "JobRescheduling",
        reschedules=2,
    ),
    Row(
        "a Rescheduling job with all desired pods is Starting",
        rescheduling,
        lambda c: None,
        Phase.STARTING,
        "JobStarting",
        reschedules=1,
    ),
    Row(
        "a Restarting job waits for the failed pod to be gone",
        restarting,
        lambda c: None,
        Phase.RESTARTING,
        "JobRestarting",
        restarts=1,
    ),
    Row(
        "a Restarting job whose failed pods are gone is Starting",
        restarting,
        lambda c: c.delete_pod("x-learner-0"),
        Phase.STARTING,
        "JobStarting",
        restarts=1,
    ),
    Row(
        "a Running job that is suspended is Pending",
        running,
        lambda c: c.edit(suspend=True),
        Phase.PENDING,
        "JobSuspended",
    ),
    Row(
        "a suspended job that is resumed is Starting once the old pods are gone",
        suspended,
        then(end_all, lambda c: c.edit(suspend=False)),
        Phase.STARTING,
        "JobStarting",
    ),
    Row(
        "a suspended job that is resumed while its pods still end is Pending",
        suspended,
        lambda c: c.edit(suspend=False),
        Phase.PENDING,
        "JobPending",
    ),
    Row(
        "a change of replicas while the job waits is no rescheduling",
        lambda: ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"]))),
        then(lambda c: c.reconcile(), lambda c: c.scale("collector", 5)),
        Phase.PENDING,
        "JobPending",
    ),
    Row(
        "a job past its deadline is Failed",
        lambda: running(activeDeadlineSeconds=60),
        lambda c: c.pass_time(60),
        Phase.FAILED,
        "DeadlineExceeded",
    ),
    Row(
        "a Succeeded job is untouched by a failed pod",
        lambda: ended(lambda c: c.succeed()),
        lambda c: c.fail("x-learner-0"),
        Phase.SUCCEEDED,
        "JobSucceeded",
    ),
    Row(
        "a Failed job is untouched by a change of replicas",
        lambda: ended(lambda c: c.fail("x-learner-0")),
        lambda c: c.scale("collector", 9),
        Phase.FAILED,
        "JobFailed",
    ),
    Row(
        "a Running job whose status was wiped is Running again",
        running,
        lambda c: c.job.update(status={}),
        Phase.RUNNING,
        "JobRunning",
    ),
    Row(
        "a Starting job whose status was wiped is Starting again",
        starting,
        lambda c: c.job.update(status={}),
        Phase.STARTING,
        "JobStarting",
    ),
)


@pytest.mark.parametrize("row", TABLE, ids=[row.sentence for row in TABLE])
def test_phase(row: Row) -> None:
    cluster = row.start()
    row.seen(cluster)
    cluster.reconcile()

    assert cluster.phase == row.phase
    assert cluster.condition(row.phase)["reason"] == row.reason
    assert cluster.status["restarts"] == row.restarts
    assert cluster.status["reschedules"] == row.reschedules


def test_the_table_speaks_of_every_phase() -> None:
    assert set(TRANSITIONS) == {None, *Phase}


def test_finished_phases_lead_nowhere() -> None:
    assert not TRANSITIONS[Phase.SUCCEEDED]
    assert not TRANSITIONS[Phase.FAILED]


def test_a_transition_outside_the_table_is_refused() -> None:
    check_transition(Phase.RUNNING, Phase.RUNNING)
    with pytest.raises(IllegalTransition, match="Succeeded -> Running"):
        check_transition(Phase.SUCCEEDED, Phase.RUNNING)
