"""Jobs whose pods another scheduler binds together: their PodGroup, and what is said of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from di_operator.lifecycle.vocabulary.rules import Seen
from di_operator.lifecycle.write_errors import SchedulingObjectRefused
from tests.unit.lifecycle.cluster_model import ClusterModel, Crash, job, task
from tests.unit.lifecycle.test_ownership import foreign

Object = dict[str, Any]
PLUGINS, VOLCANO = {"gangScheduler": "scheduler-plugins"}, {"gangScheduler": "volcano"}
GROUP = ("PodGroup", "x")
LABEL = "scheduling.x-k8s.io/pod-group"
WORDS = "3/3 tasks in gang unschedulable: pod group is not ready, 3 minAvailable"


def asking(name: str, replicas: int = 1, cpu: str = "500m", **fields: Any) -> Object:
    made = task(name, replicas, **fields)
    requests = {"cpu": cpu, "memory": "1Gi"}
    made["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


def gang(*tasks: Object, scheduling: Object = PLUGINS, **spec: Any) -> ClusterModel:
    made = tasks or (asking("learner"), asking("collector", 3))
    return ClusterModel(job(*made, scheduling=scheduling, **spec))


def up(cluster: ClusterModel) -> ClusterModel:
    cluster.settle().run().settle()
    assert cluster.phase == "Running"
    cluster.writes.clear()
    return cluster


def group(cluster: ClusterModel) -> Object:
    spec: Object = cluster.objects[GROUP]["spec"]
    return spec


@pytest.mark.proves("teams-gangs.md#the-podgroup", "dijob.md#spec/scheduling-gangscheduler")
def test_the_group_is_made_before_the_pods_and_counts_all_of_them() -> None:
    cluster = gang().settle()
    assert cluster.writes[0] == "create PodGroup x"
    made = cluster.objects[GROUP]
    assert made["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("DIJob", "uid-x", True)
    # No minResources: a group that it refuses for them waits for long after there is room.
    assert made["spec"] == {"minMember": 4}
    for pod in cluster.pods.values():
        assert pod["metadata"]["labels"][LABEL] == "x"
        assert pod["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


@pytest.mark.proves(
    "teams-gangs.md#gangs-of-the-cluster-s-schedulers/volcano", "dijob.md#spec/scheduling-queue"
)
def test_volcano_reads_an_annotation_and_has_queues_and_priorities() -> None:
    learner = asking("learner", cpu="250m")
    learner["template"]["spec"]["priorityClassName"] = "urgent"
    cluster = gang(learner, scheduling={**VOLCANO, "queue": "rl"}).settle()
    assert cluster.objects[GROUP]["apiVersion"] == "scheduling.volcano.sh/v1beta1"
    assert group(cluster) == {
        "minMember": 1,
        "minResources": {"cpu": "250m", "memory": str(2**30)},
        "queue": "rl",
        "priorityClassName": "urgent",
    }
    pod = cluster.pods["x-learner-0"]
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "x"
    assert pod["spec"]["schedulerName"] == "volcano"
    assert LABEL not in pod["metadata"]["labels"]


def test_the_group_of_kubernetes_itself_has_the_pods_name_it_in_their_spec() -> None:
    learner = asking("learner", 2)
    learner["template"]["spec"]["priorityClassName"] = "urgent"
    cluster = gang(learner, scheduling={"gangScheduler": "kubernetes"}).settle()
    assert cluster.objects[GROUP]["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert group(cluster) == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "priorityClassName": "urgent",
    }
    pod = cluster.pods["x-learner-0"]
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "x"}
    # The scheduler is that of any pod.
    assert "schedulerName" not in pod["spec"]
    # Its priority class is immutable.
    group(cluster)["priorityClassName"] = "default"
    cluster.scale("learner", 3).settle()
    assert group(cluster) == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "default",
    }


def test_a_scheduler_that_the_template_names_stays() -> None:
    learner = asking("learner")
    learner["template"]["spec"]["schedulerName"] = "default-scheduler"
    cluster = gang(learner).settle()
    pod = cluster.pods["x-learner-0"]
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["metadata"]["labels"][LABEL] == "x"


@pytest.mark.proves("teams-gangs.md#gangs-of-the-cluster-s-schedulers/none-the-default")
def test_a_job_without_a_gang_scheduler_costs_no_extra_read() -> None:
    cluster = ClusterModel(job()).settle()
    assert cluster.looks == 0
    assert GROUP not in cluster.objects
    assert "schedulerName" not in cluster.pods["x-learner-0"]["spec"]


def test_dependent_tasks_join_the_minimum_with_their_pods() -> None:
    tasks = (asking("learner", 2), asking("collector", 3, dependsOn=["learner"]))
    cluster = gang(*tasks, scheduling=VOLCANO).settle()
    # Over all pods it would never start: three of them come later.
    assert group(cluster)["minMember"] == 2
    assert set(cluster.pods) == {"x-learner-0", "x-learner-1"}
    cluster.run()
    cluster.writes.clear()
    cluster.settle()
    pods = [f"create Pod x-collector-{index}" for index in range(3)]
    # First what the new pods have to wait for, at last that they are there.
    assert [w for w in cluster.writes if w != "status"] == [
        "patch PodGroup x",
        *pods,
        "patch PodGroup x",
    ]
    assert cluster.objects[GROUP]["metadata"]["annotations"] == {"diengine/pods-made": "5"}
    assert group(cluster)["minMember"] == 5
    assert (group(cluster)["minResources"]["cpu"], len(cluster.pods)) == ("2500m", 5)


@pytest.mark.proves("teams-gangs.md#the-podgroup")
def test_the_minimum_follows_the_replicas() -> None:
    cluster = up(gang(asking("collector", 2))).scale("collector", 5).settle()
    assert group(cluster)["minMember"] == 5
    cluster.run().settle().scale("collector", 3).settle()
    cluster.delete_pod("x-collector-0", force=True).settle()
    # The replaced pod waits for two others, not for four.
    assert group(cluster)["minMember"] == 3


def test_pods_that_have_succeeded_are_not_waited_for() -> None:
    cluster = up(gang(asking("collector", 3))).succeed("x-collector-0").settle()
    # Nothing waits for the group now: a write for each pod that succeeds would be wasted.
    assert "patch PodGroup x" not in cluster.writes
    cluster.delete_pod("x-collector-1", force=True).settle()
    assert group(cluster)["minMember"] == 2


def test_elastic_tiers_are_no_members_and_have_the_same_scheduler() -> None:
    tier = asking("collector", 3, minReplicas=1, maxReplicas=3, elastic={})
    cluster = up(gang(tier)).settle()
    assert group(cluster)["minMember"] == 1
    beyond = cluster.pods["x-collector-2"]
    assert LABEL not in beyond["metadata"]["labels"]
    assert beyond["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_a_deleted_or_edited_group_is_restored() -> None:
    cluster = gang(scheduling=VOLCANO).settle()
    del cluster.objects[GROUP]
    cluster.settle()
    assert group(cluster)["minMember"] == 4
    group(cluster).update(minMember=9, scheduleTimeoutSeconds=60)
    group(cluster)["minResources"]["example.org/gpu"] = "7"
    cluster.settle()
    # What the job does not speak of is left as it is.
    assert group(cluster)["scheduleTimeoutSeconds"] == 60
    assert (group(cluster)["minMember"], group(cluster)["minResources"]["cpu"]) == (4, "2")
    assert not group(cluster)["minResources"].get("example.org/gpu")
    group(cluster)["minResources"] = {"cpu": "a lot"}
    cluster.settle()
    assert group(cluster)["minResources"]["cpu"] == "2"


def test_equal_quantities_in_other_notations_cost_no_write() -> None:
    cluster = gang(scheduling=VOLCANO).settle()
    cluster.writes.clear()
    group(cluster)["minResources"] = {"cpu": "2000m", "memory": "4Gi"}
    cluster.settle()
    assert "patch PodGroup x" not in cluster.writes


@pytest.mark.proves("events.md#of-its-life/schedulingkindmissing")
def test_no_pod_is_made_where_nothing_serves_the_kind() -> None:
    cluster = gang()
    words = "PodGroup (scheduling.x-k8s.io/v1alpha1) x: nothing in this cluster serves it"
    cluster.refuse_scheduling_objects = SchedulingObjectRefused(
        seen=Seen.SCHEDULING_KIND_MISSING, message=words
    )
    cluster.reconcile()
    assert cluster.pods == {}
    condition = cluster.condition("Pending")
    assert (condition["reason"], condition["message"]) == ("SchedulingKindMissing", words)
    cluster.refuse_scheduling_objects = None
    cluster.pass_time(60).settle()
    assert len(cluster.pods) == 4


@pytest.mark.proves("events.md#of-its-life/schedulingobjectrefused")
def test_a_job_that_is_up_goes_on_where_its_group_is_refused() -> None:
    cluster = up(gang())
    del cluster.objects[GROUP]
    cluster.refuse_scheduling_objects = SchedulingObjectRefused(
        seen=Seen.SCHEDULING_OBJECT_REFUSED, message="forbidden"
    )
    cluster.reconcile()
    assert cluster.phase == "Running"
    assert cluster.events[-1].reason == "SchedulingObjectRefused"


def test_a_foreign_group_is_not_touched() -> None:
    cluster = gang()
    theirs = foreign("PodGroup", "x")
    cluster.put(theirs)
    before = dict(cluster.objects[GROUP])
    cluster.reconcile()
    assert cluster.pods == {}
    assert cluster.condition("Pending")["reason"] == "SchedulingObjectRefused"
    assert cluster.objects[GROUP] == before


def test_pods_wait_for_the_group_of_an_earlier_job_to_be_gone() -> None:
    old = gang().settle()
    new = gang()
    new.job["metadata"]["uid"] = "uid-new"
    new.objects[GROUP] = old.objects[GROUP]
    new.reconcile()
    assert new.writes == ["status"]
    message = new.condition("Pending")["message"]
    assert message == "waiting for PodGroup x of an earlier job to be gone"
    del new.objects[GROUP]
    new.settle()
    assert len(new.pods) == 4


def test_the_group_stays_through_a_suspension() -> None:
    cluster = up(gang()).edit(suspend=True).settle()
    for pod in list(cluster.pods):
        cluster.end(pod)
    cluster.settle()
    assert GROUP in cluster.objects
    cluster.scale("collector", 1).edit(suspend=False).settle()
    assert group(cluster)["minMember"] == 2


@pytest.mark.proves("teams-gangs.md#why-a-gang-waits", "events.md#of-its-life/podgrouppending")
@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({"type": "Unschedulable", "status": "True"}, id="Volcano"),
        pytest.param({"type": "PodGroupInitiallyScheduled", "status": "False"}, id="Kubernetes"),
    ],
)
def test_the_jobs_condition_has_the_message_of_its_group(condition: Object) -> None:
    cluster = gang(scheduling=VOLCANO).settle()
    status = {"phase": "Inqueue", "conditions": [{**condition, "message": WORDS}]}
    cluster.objects[GROUP]["status"] = status
    cluster.settle()
    found = cluster.condition("Starting")
    assert (found["reason"], found["message"]) == ("PodGroupPending", f"PodGroup x: {WORDS}")
    # What is said of a pod is closer.
    cluster.refuse("x-learner-0", "0/1 nodes are available: Insufficient cpu.").settle()
    assert cluster.condition("Starting")["reason"] == "Unschedulable"
    cluster.run().settle()
    assert cluster.phase == "Running"


def test_a_crash_after_any_write_leaves_what_the_next_run_repairs() -> None:
    for writes in range(1, 8):
        cluster = gang()
        with pytest.raises(Crash):
            cluster.reconcile(crash_after=writes)
        cluster.settle()
        assert (group(cluster)["minMember"], len(cluster.pods)) == (4, 4)
        assert sum(write == "create PodGroup x" for write in cluster.writes) == 1


def test_an_unreadable_quantity_is_left_out_of_the_group() -> None:
    cluster = up(gang(asking("learner"), scheduling=VOLCANO))
    cluster.edit(tasks=[asking("learner", cpu="a lot")])
    cluster.delete_pod("x-learner-0", force=True).settle()
    assert group(cluster)["minMember"] == 1
    assert set(group(cluster)["minResources"].values()) <= {None}


def test_a_scheduler_that_refused_pods_is_retried_with_backoff() -> None:
    cluster = gang(asking("learner", 2)).settle()
    asked = []
    for _ in range(40):
        cluster.refuse("x-learner-0", "pre-filter pod x-learner-0 cannot find enough sibling pods")
        cluster.writes.clear()
        cluster.settle()
        asked += [cluster.now] * cluster.writes.count("patch PodGroup x")
        cluster.pass_time(5)
    pauses = [(b - a).total_seconds() for a, b in pairwise(asked)]
    assert 15 <= pauses[0] <= 20
    assert 60 <= pauses[-1] <= 65
    # One whose pods are bound is left alone.
    cluster.run().settle()
    cluster.writes.clear()
    cluster.pass_time(600).settle()
    assert "patch PodGroup x" not in cluster.writes


def test_volcano_needs_no_retry() -> None:
    cluster = gang(asking("learner"), scheduling=VOLCANO).settle()
    cluster.refuse("x-learner-0", "no room")
    cluster.writes.clear()
    cluster.settle()
    assert "patch PodGroup x" not in cluster.writes
