"""The table of phases: from where, what is seen, to where. The ids read as sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from di_api.phase import Phase
from di_kube.resources import PODS
from di_operator.lifecycle.vocabulary.phases import TRANSITIONS, IllegalTransition, check_transition
from di_operator.lifecycle.write_errors import Fault, NameTaken, QuotaExceeded, TemplateRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

Start = Callable[[], ClusterModel]
Step = Callable[[ClusterModel], object]
TAKEN = {"metadata": {"name": "x-learner-0", "namespace": "rl"}}


def new(**spec: Any) -> ClusterModel:
    return ClusterModel(job(**spec))


def dependent() -> ClusterModel:
    return ClusterModel(job(task("learner"), task("collector", dependsOn=["learner"])))


def starting() -> ClusterModel:
    return new().settle()


def on_its_last_try() -> ClusterModel:
    return running(backoffLimit=0)


def after(start: Start, step: Step) -> Start:
    def reconciled() -> ClusterModel:
        cluster = start()
        step(cluster)
        cluster.reconcile()
        return cluster

    return reconciled


restarting = after(running, lambda c: c.fail("x-learner-0"))
rescheduling = after(running, lambda c: c.scale("collector", 4))
suspended = after(running, lambda c: c.edit(suspend=True))
succeeded = after(running, lambda c: c.succeed())
failed = after(on_its_last_try, lambda c: c.fail("x-learner-0"))


def nothing(cluster: ClusterModel) -> None:
    pass


def refuse(fault: Fault) -> Step:
    return lambda cluster: setattr(cluster, "refuse_pods", fault)


def row(start: Start, seen: Step, end: str) -> tuple[Start, Step, str]:
    return start, seen, end


# What follows: the phase, its reason unless it is Job and the phase, and restarts+reschedules.
TABLE = {
    "a new job whose pods can all be created is Starting at once": row(new, nothing, "Starting"),
    "a new job that is suspended is Pending": row(
        lambda: new(suspend=True), nothing, "Pending JobSuspended"
    ),
    "a new job whose pods wait for another task is Pending": row(dependent, nothing, "Pending"),
    "a new job with an invalid spec is Failed": row(
        lambda: ClusterModel(job(task("learner", 0))), nothing, "Failed InvalidSpec"
    ),
    "a new job over its quota is Pending": row(
        new, refuse(QuotaExceeded(message="exceeded quota: pods")), "Pending QuotaExceeded"
    ),
    "a new job whose template the API server refuses is Failed": row(
        new, refuse(TemplateRefused(message="image: Required value")), "Failed InvalidTemplate"
    ),
    "a new job whose pod name is taken is Pending": row(
        new, refuse(NameTaken(resource=PODS, found=TAKEN)), "Pending PodNameConflict"
    ),
    "a Starting job with one pod not ready stays Starting": row(
        starting, lambda c: c.run("x-learner-0", "x-collector-0", "x-collector-1"), "Starting"
    ),
    "a Starting job with all pods ready is Running": row(starting, lambda c: c.run(), "Running"),
    "a Starting job with some pods ready and the others succeeded is Running": row(
        starting, lambda c: c.run().succeed("x-learner-0"), "Running"
    ),
    "a Starting job whose pods have all succeeded is Running before it is Succeeded": row(
        starting, lambda c: c.succeed(), "Running"
    ),
    "a Running job with some pods succeeded stays Running": row(
        running, lambda c: c.succeed("x-learner-0", "x-collector-0", "x-collector-1"), "Running"
    ),
    "a Running job with a pod that is no longer ready stays Running": row(
        running, lambda c: c.say("x-learner-0", phase="Running"), "Running"
    ),
    "a Running job whose pods have all succeeded is Succeeded": row(
        running, lambda c: c.succeed(), "Succeeded"
    ),
    "a Starting job with a failed pod is Restarting": row(
        starting, lambda c: c.fail("x-learner-0"), "Restarting 1+0"
    ),
    "a Running job with a failed pod is Restarting": row(
        running, lambda c: c.fail("x-learner-0"), "Restarting 1+0"
    ),
    "failures seen together are one restart": row(
        running, lambda c: c.fail("x-learner-0", "x-collector-0", "x-collector-2"), "Restarting 1+0"
    ),
    "a failure without restarts left is Failed": row(
        on_its_last_try, lambda c: c.fail("x-learner-0"), "Failed"
    ),
    "a failure while Restarting is another restart": row(
        restarting, lambda c: c.fail("x-collector-1"), "Restarting 2+0"
    ),
    "a loss while Restarting leaves the job Restarting": row(
        restarting, lambda c: c.evict("x-collector-1"), "Restarting 1+1"
    ),
    "a failure while Rescheduling is a restart": row(
        rescheduling, lambda c: c.fail("x-collector-1"), "Restarting 1+1"
    ),
    "a failure beside an eviction counts both": row(
        running, lambda c: c.fail("x-learner-0").evict("x-collector-0"), "Restarting 1+1"
    ),
    "an evicted pod is no failure": row(
        on_its_last_try, lambda c: c.evict("x-learner-0"), "Rescheduling 0+1"
    ),
    "a pod that found no room on its node is no failure": row(
        on_its_last_try,
        lambda c: c.reject("x-learner-0", "OutOfcpu"),
        "Rescheduling PodRejected 0+1",
    ),
    "a pod with the condition DisruptionTarget is no failure": row(
        on_its_last_try,
        lambda c: c.lose("x-learner-0", "failed by the node"),
        "Rescheduling 0+1",
    ),
    "a pod that a user deletes is no failure": row(
        on_its_last_try, lambda c: c.delete_pod("x-learner-0"), "Rescheduling 0+1"
    ),
    "a pod that fails while it is deleted is no failure": row(
        on_its_last_try,
        lambda c: c.delete_pod("x-learner-0").fail("x-learner-0", code=143),
        "Rescheduling 0+1",
    ),
    "a pod that vanished is no failure": row(
        on_its_last_try, lambda c: c.delete_pod("x-learner-0", force=True), "Rescheduling 0+1"
    ),
    "a Running job scaled up is Rescheduling": row(
        running, lambda c: c.scale("collector", 5), "Rescheduling 0+1"
    ),
    "a Running job scaled down is Rescheduling": row(
        running, lambda c: c.scale("collector", 1), "Rescheduling 0+1"
    ),
    "a Starting job scaled up is Rescheduling": row(
        starting, lambda c: c.scale("collector", 5), "Rescheduling 0+1"
    ),
    "a second change while Rescheduling is counted too": row(
        rescheduling, lambda c: c.scale("collector", 2), "Rescheduling 0+2"
    ),
    "a Rescheduling job with all desired pods is Starting": row(
        rescheduling, nothing, "Starting 0+1"
    ),
    "a Restarting job waits for the failed pod to be gone": row(
        restarting, nothing, "Restarting 1+0"
    ),
    "a Restarting job whose failed pods are gone is Starting": row(
        restarting, lambda c: c.delete_pod("x-learner-0"), "Starting 1+0"
    ),
    "a Running job that is suspended is Pending": row(
        running, lambda c: c.edit(suspend=True), "Pending JobSuspended"
    ),
    "a suspended job that is resumed is Starting once the old pods are gone": row(
        suspended, lambda c: c.end_deleted().edit(suspend=False), "Starting"
    ),
    "a suspended job that is resumed while its pods still end is Pending": row(
        suspended, lambda c: c.edit(suspend=False), "Pending"
    ),
    "a change of replicas while the job waits is no rescheduling": row(
        dependent, lambda c: c.settle().scale("collector", 5), "Pending"
    ),
    "a job past its deadline is Failed": row(
        lambda: running(activeDeadlineSeconds=60),
        lambda c: c.pass_time(60),
        "Failed DeadlineExceeded",
    ),
    "a Succeeded job is untouched by a failed pod": row(
        succeeded, lambda c: c.fail("x-learner-0"), "Succeeded"
    ),
    "a Failed job is untouched by a change of replicas": row(
        failed, lambda c: c.scale("collector", 9), "Failed"
    ),
    "a Running job whose status was wiped is Running again": row(
        running, lambda c: c.job.update(status={}), "Running"
    ),
    "a Starting job whose status was wiped is Starting again": row(
        starting, lambda c: c.job.update(status={}), "Starting"
    ),
}


@pytest.mark.proves("lifecycle.md#phases", "dijob.md#status/phase")
@pytest.mark.parametrize(("start", "seen", "end"), TABLE.values(), ids=TABLE)
def test_phase(start: Start, seen: Step, end: str) -> None:
    phase, *more = end.split()
    counts = more.pop() if "+" in end else "0+0"
    reason = more[0] if more else f"Job{phase}"
    cluster = after(start, seen)()
    assert (cluster.phase, cluster.condition(phase)["reason"]) == (phase, reason)
    assert f"{cluster.status['restarts']}+{cluster.status['reschedules']}" == counts


def test_every_phase_has_transitions_and_finished_phases_have_none() -> None:
    assert set(TRANSITIONS) == {None, *Phase}
    assert not TRANSITIONS[Phase.SUCCEEDED]
    assert not TRANSITIONS[Phase.FAILED]


def test_a_transition_outside_the_table_is_refused() -> None:
    check_transition(Phase.RUNNING, Phase.RUNNING)
    with pytest.raises(IllegalTransition, match="Succeeded -> Running"):
        check_transition(Phase.SUCCEEDED, Phase.RUNNING)
