"""Jobs whose pods another scheduler binds together: their PodGroup, and what is said of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from di_operator.lifecycle.faults import SchedulingObjectRefused
from di_operator.lifecycle.rules import Seen
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
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"
    cluster.writes.clear()
    return cluster


def group(cluster: ClusterModel) -> Object:
    spec: Object = cluster.objects[GROUP]["spec"]
    return spec


def test_the_group_stands_before_the_pods_and_has_all_of_them() -> None:
    cluster = gang()
    cluster.settle()
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


def test_volcano_reads_an_annotation_and_has_queues_and_priorities() -> None:
    learner = asking("learner", cpu="250m")
    learner["template"]["spec"]["priorityClassName"] = "urgent"
    cluster = gang(learner, scheduling={**VOLCANO, "queue": "rl"})
    cluster.settle()
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
    cluster = gang(learner, scheduling={"gangScheduler": "kubernetes"})
    cluster.settle()
    assert cluster.objects[GROUP]["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert group(cluster) == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "priorityClassName": "urgent",
    }
    pod = cluster.pods["x-learner-0"]
    assert pod["spec"]["schedulingGroup"] == {"podGroupName": "x"}
    # The scheduler is that of any pod.
    assert "schedulerName" not in pod["spec"]
    # Its priority class is what nobody may change.
    group(cluster)["priorityClassName"] = "default"
    cluster.scale("learner", 3)
    cluster.settle()
    assert group(cluster) == {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "priorityClassName": "default",
    }


def test_a_scheduler_that_the_template_names_stays() -> None:
    learner = asking("learner")
    learner["template"]["spec"]["schedulerName"] = "default-scheduler"
    cluster = gang(learner)
    cluster.settle()
    pod = cluster.pods["x-learner-0"]
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["metadata"]["labels"][LABEL] == "x"


def test_a_job_without_a_gang_scheduler_is_never_looked_at() -> None:
    cluster = ClusterModel(job())
    cluster.settle()
    assert cluster.looks == 0
    assert GROUP not in cluster.objects
    assert "schedulerName" not in cluster.pods["x-learner-0"]["spec"]


def test_tasks_that_wait_for_others_join_the_minimum_when_their_pods_are_made() -> None:
    tasks = (asking("learner", 2), asking("collector", 3, dependsOn=["learner"]))
    cluster = gang(*tasks, scheduling=VOLCANO)
    cluster.settle()
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
    assert group(cluster)["minResources"]["cpu"] == "2500m"
    assert len(cluster.pods) == 5


def test_the_minimum_follows_the_replicas() -> None:
    cluster = up(gang(asking("collector", 2)))
    cluster.scale("collector", 5)
    cluster.settle()
    assert group(cluster)["minMember"] == 5
    cluster.run()
    cluster.settle()
    cluster.scale("collector", 3)
    cluster.settle()
    cluster.delete_pod("x-collector-0", force=True)
    cluster.settle()
    # The one that is made anew waits for two others, not for four.
    assert group(cluster)["minMember"] == 3


def test_pods_that_have_succeeded_are_not_waited_for() -> None:
    cluster = up(gang(asking("collector", 3)))
    cluster.succeed("x-collector-0")
    cluster.settle()
    # Nothing waits for the group now: a write for each pod that succeeds would be for nobody.
    assert "patch PodGroup x" not in cluster.writes
    cluster.delete_pod("x-collector-1", force=True)
    cluster.settle()
    assert group(cluster)["minMember"] == 2


def test_elastic_tiers_are_no_members_and_have_the_same_scheduler() -> None:
    tier = asking("collector", 3, minReplicas=1, maxReplicas=3, elastic={})
    cluster = up(gang(tier))
    cluster.settle()
    assert group(cluster)["minMember"] == 1
    beyond = cluster.pods["x-collector-2"]
    assert LABEL not in beyond["metadata"]["labels"]
    assert beyond["spec"]["schedulerName"] == "scheduler-plugins-scheduler"


def test_a_group_that_was_deleted_is_made_again_and_an_edited_one_put_right() -> None:
    cluster = gang(scheduling=VOLCANO)
    cluster.settle()
    del cluster.objects[GROUP]
    cluster.settle()
    assert group(cluster)["minMember"] == 4
    group(cluster).update(minMember=9, scheduleTimeoutSeconds=60)
    group(cluster)["minResources"]["example.org/gpu"] = "7"
    cluster.settle()
    # What the job does not speak of is left as it is.
    assert group(cluster)["scheduleTimeoutSeconds"] == 60
    assert group(cluster)["minMember"] == 4
    assert group(cluster)["minResources"]["cpu"] == "2"
    assert not group(cluster)["minResources"].get("example.org/gpu")


def test_amounts_that_somebody_writes_in_other_words_are_the_same() -> None:
    cluster = gang(scheduling=VOLCANO)
    cluster.settle()
    cluster.writes.clear()
    group(cluster)["minResources"] = {"cpu": "2000m", "memory": "4Gi"}
    cluster.settle()
    assert "patch PodGroup x" not in cluster.writes


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
    cluster.pass_time(60)
    cluster.settle()
    assert len(cluster.pods) == 4


def test_a_job_that_is_up_goes_on_where_its_group_is_refused() -> None:
    cluster = up(gang())
    del cluster.objects[GROUP]
    cluster.refuse_scheduling_objects = SchedulingObjectRefused(
        seen=Seen.SCHEDULING_OBJECT_REFUSED, message="forbidden"
    )
    cluster.reconcile()
    assert cluster.phase == "Running"
    assert cluster.events[-1].reason == "SchedulingObjectRefused"


def test_a_group_of_somebody_else_is_not_touched() -> None:
    cluster = gang()
    theirs = foreign("PodGroup", "x")
    cluster.put(theirs)
    before = dict(cluster.objects[GROUP])
    cluster.reconcile()
    assert cluster.pods == {}
    assert cluster.condition("Pending")["reason"] == "SchedulingObjectRefused"
    assert cluster.objects[GROUP] == before


def test_pods_wait_for_the_group_of_an_earlier_job_to_be_gone() -> None:
    old = gang()
    old.settle()
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


def test_the_group_stays_while_the_job_is_suspended_and_counts_anew_after() -> None:
    cluster = up(gang())
    cluster.edit(suspend=True)
    cluster.settle()
    for pod in list(cluster.pods):
        cluster.end(pod)
    cluster.settle()
    assert GROUP in cluster.objects
    cluster.scale("collector", 1)
    cluster.edit(suspend=False)
    cluster.settle()
    assert group(cluster)["minMember"] == 2


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({"type": "Unschedulable", "status": "True"}, id="Volcano"),
        pytest.param({"type": "PodGroupInitiallyScheduled", "status": "False"}, id="Kubernetes"),
    ],
)
def test_the_condition_of_the_job_has_the_words_of_its_group(condition: Object) -> None:
    cluster = gang(scheduling=VOLCANO)
    cluster.settle()
    status = {"phase": "Inqueue", "conditions": [{**condition, "message": WORDS}]}
    cluster.objects[GROUP]["status"] = status
    cluster.settle()
    found = cluster.condition("Starting")
    assert (found["reason"], found["message"]) == ("PodGroupPending", f"PodGroup x: {WORDS}")
    # What is said of a pod is closer.
    cluster.refuse("x-learner-0", "0/1 nodes are available: Insufficient cpu.")
    cluster.settle()
    assert cluster.condition("Starting")["reason"] == "Unschedulable"
    cluster.run()
    cluster.settle()
    assert cluster.phase == "Running"


def test_a_crash_after_any_write_leaves_what_the_next_run_repairs() -> None:
    for writes in range(1, 8):
        cluster = gang()
        with pytest.raises(Crash):
            cluster.reconcile(crash_after=writes)
        cluster.settle()
        assert group(cluster)["minMember"] == 4
        assert len(cluster.pods) == 4
        assert sum(write == "create PodGroup x" for write in cluster.writes) == 1


def test_of_a_quantity_that_cannot_be_read_the_group_says_nothing() -> None:
    cluster = up(gang(asking("learner"), scheduling=VOLCANO))
    cluster.edit(tasks=[asking("learner", cpu="a lot")])
    cluster.delete_pod("x-learner-0", force=True)
    cluster.settle()
    assert group(cluster)["minMember"] == 1
    assert set(group(cluster)["minResources"].values()) <= {None}


def test_a_scheduler_that_refused_pods_is_asked_again_after_growing_pauses() -> None:
    cluster = gang(asking("learner", 2))
    cluster.settle()
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
    cluster.run()
    cluster.settle()
    cluster.writes.clear()
    cluster.pass_time(600)
    cluster.settle()
    assert "patch PodGroup x" not in cluster.writes


def test_volcano_looks_again_by_itself() -> None:
    cluster = gang(asking("learner"), scheduling=VOLCANO)
    cluster.settle()
    cluster.refuse("x-learner-0", "no room")
    cluster.writes.clear()
    cluster.settle()
    assert "patch PodGroup x" not in cluster.writes
