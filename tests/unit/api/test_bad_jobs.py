"""Every bad job is refused with the field, its value and what is allowed."""

from __future__ import annotations

import pytest

from di_api.spec import CleanPodPolicy, JobSpec, Priority, Task, TaskType
from di_api.validation import load_leniently, validate_job
from tests.unit.api.jobs import Job, job, leader, of_spec, task, template, with_template

RPC = {"name": "rpc"}
HTTP = {"name": "http", "port": 80}
NEAR = {"tasks": ["learner"], "required": "example.com/rack"}

BAD = {
    "a gang that is not yes or no": (
        of_spec({"tasks": [task()], "scheduling": {"gang": "yes"}}),
        'spec.scheduling.gang: "yes": must be true or false',
    ),
    "a misspelt way of scheduling": (
        of_spec({"tasks": [task()], "scheduling": {"gnag": True}}),
        "spec.scheduling.gnag: true: unknown field; did you mean gang?",
    ),
    "a gang that two would bind": (
        job(scheduling={"gang": True, "gangScheduler": "volcano"}),
        'spec.scheduling.gangScheduler: "volcano": does not go with scheduling.gang: the allocator '
        "would hold back pods that this scheduler waits for; choose one of the two",
    ),
    "a preemptible job with a gang scheduler": (
        job(preemptible=True, scheduling={"gangScheduler": "scheduler-plugins"}),
        'spec.scheduling.gangScheduler: "scheduler-plugins": does not go with preemptible: the '
        "allocator chooses the node of each pod",
    ),
    "an unknown gang scheduler": (
        job(scheduling={"gangScheduler": "slurm"}),
        'spec.scheduling.gangScheduler: "slurm": must be one of none, scheduler-plugins, volcano, '
        "kubernetes",
    ),
    "a queue that nobody reads": (
        job(scheduling={"gangScheduler": "scheduler-plugins", "queue": "rl"}),
        'spec.scheduling.queue: "rl": goes with gangScheduler volcano; other schedulers have no '
        "queues",
    ),
    "nodes asked for and chosen by the allocator": (
        job(preemptible=True, scheduling={"provisioningClassName": "a"}),
        'spec.scheduling.provisioningClassName: "a": does not go with preemptible: the allocator '
        "chooses the node of each pod",
    ),
    "nodes asked for in a gang of the allocator": (
        job(scheduling={"gang": True, "provisioningClassName": "a"}),
        'spec.scheduling.provisioningClassName: "a": does not go with scheduling.gang: the '
        "allocator waits for room on nodes that are there; choose one of the two",
    ),
    "pods near each other whose nodes the allocator chooses": (
        job(preemptible=True, scheduling={"topology": [NEAR]}),
        "spec.scheduling.topology: a list of 1: does "
        "not go with preemptible: the allocator chooses the node of each pod",
    ),
    "pods near each other in a gang of the allocator": (
        job(scheduling={"gang": True, "topology": [NEAR]}),
        "spec.scheduling.topology: a list of 1: does "
        "not go with scheduling.gang: the allocator finds room for each pod by itself; "
        "gangScheduler goes with it",
    ),
    "pods near each other of no task": (
        job(scheduling={"topology": [NEAR | {"tasks": ["actor"]}]}),
        'spec.scheduling.topology[0].tasks[0]: "actor": no task of this job has that name',
    ),
    "pods near each other of an empty list": (
        job(scheduling={"topology": [NEAR | {"tasks": []}]}),
        "spec.scheduling.topology[0].tasks: []: must name a task",
    ),
    "pods near each other without a label": (
        job(scheduling={"topology": [{"tasks": ["learner"]}]}),
        "spec.scheduling.topology[0].required: is required, unless preferred is given",
    ),
    "pods near each other in two ways": (
        job(scheduling={"topology": [NEAR | {"preferred": "example.com/rack"}]}),
        'spec.scheduling.topology[0].preferred: "example.com/rack": exactly one of required and '
        "preferred is given",
    ),
    "a label that no node can have": (
        job(scheduling={"topology": [NEAR | {"required": "a rack"}]}),
        'spec.scheduling.topology[0].required: "a rack": must be the key of a node\'s label, such '
        "as topology.kubernetes.io/zone",
    ),
    "two words on where a task is": (
        job(scheduling={"topology": [NEAR, NEAR | {"colocate": "Tasks"}]}),
        'spec.scheduling.topology[1].tasks[0]: "learner": spec.scheduling.topology[0] says already '
        "where all its pods are",
    ),
    "replicas of one pod near each other": (
        job(scheduling={"topology": [NEAR | {"colocate": "Replica"}]}),
        'spec.scheduling.topology[0].tasks[0]: "learner": colocate Replica is for podsPerReplica '
        "above 1",
    ),
    "scheduling that is no object": (
        of_spec({"tasks": [task()], "scheduling": []}),
        "spec.scheduling: []: must be an object",
    ),
    "an unknown priority": (
        job(priority="urgent"),
        'spec.priority: "urgent": must be one of normal, high',
    ),
    "a priority that is an object": (
        job(priority={}),
        "spec.priority: {}: must be one of normal, high",
    ),
    "an unknown clean-up policy": (
        job(cleanPodPolicy="ALL"),
        'spec.cleanPodPolicy: "ALL": must be one of Running, All, None',
    ),
    "preemptible as text": (
        job(preemptible="yes"),
        'spec.preemptible: "yes": must be true or false',
    ),
    "suspend as a number": (job(suspend=1), "spec.suspend: 1: must be true or false"),
    "a negative backoffLimit": (job(backoffLimit=-1), "spec.backoffLimit: -1: must be 0 or more"),
    "a deadline of zero seconds": (
        job(activeDeadlineSeconds=0),
        "spec.activeDeadlineSeconds: 0: must be 1 or more",
    ),
    "a negative time to live": (
        job(ttlSecondsAfterFinished=-1),
        "spec.ttlSecondsAfterFinished: -1: must be 0 or more",
    ),
    "a group longer than a name": (
        job(group="g" * 254),
        f'spec.group: "{"g" * 77}...": must be at most 253 characters long',
    ),
    "a misspelt field of the job": (
        job(backofLimit=2),
        "spec.backofLimit: 2: unknown field; did you mean backoffLimit?",
    ),
    "a field of the job in the wrong case": (
        job(cleanpodpolicy="All"),
        'spec.cleanpodpolicy: "All": unknown field; did you mean cleanPodPolicy?',
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


def test_all_errors_come_at_once() -> None:
    bad = job(
        task("lerner", name="a", replicas=0),
        task("none", replicas=3, maxReplicas=2, dependsOn=["ghost"]),
        name="cart.pole",
        priority="urgent",
        backoffLimit=-1,
    )
    assert [error.path for error in validate_job(bad)] == [
        "metadata.name",
        "spec.priority",
        "spec.backoffLimit",
        "spec.tasks[0].type",
        "spec.tasks[0].replicas",
        "spec.tasks[1].name",
        "spec.tasks[1].replicas",
        "spec.tasks[1].dependsOn[0]",
    ]


GOOD_JOBS = {
    "a task and nothing else": job(),
    "one task of each type": job(task(), task("collector"), task("evaluator")),
    "several tasks of each type": job(
        task(),
        task(name="critic"),
        *(task(kind, name=f"{kind}-{n}") for kind in ("collector", "evaluator") for n in "ab"),
    ),
    "ports of one name in several tasks": job(
        task(ports=[RPC]), task("collector", ports=[RPC]), task("evaluator", ports=[{"name": "b"}])
    ),
    "one port of the job in several tasks": job(
        *(task(kind, ports=[{**RPC, "scope": "Job"}]) for kind in ("learner", "collector"))
    ),
    "a Service of one number by two protocols": job(
        task(service={"ports": [HTTP, {**HTTP, "name": "b", "protocol": "UDP"}]})
    ),
    "a name that begins with a digit, without a Service": job(name="1st"),
    "a generated name that begins as the job's own Service": {
        "metadata": {"generateName": "di"},
        **{"spec": job(task("none", name="di", service={"ports": [HTTP]}))["spec"]},
    },
    "several tasks of type none": job(task("none", name="a"), task("none", name="b")),
    "replicas at both bounds": job(task(replicas=2, minReplicas=2, maxReplicas=2)),
    "collectors that wait for the learner": job(task(), task("collector", dependsOn=["learner"])),
    "no restart allowed": job(backoffLimit=0),
    "deletion at once when finished": job(ttlSecondsAfterFinished=0),
    "null for fields that may be absent": job(
        task(minReplicas=None, dependsOn=None, name=None), group=None, volumes=None
    ),
    "as many pods as a job may have": job(task(maxReplicas=4000), task("collector", replicas=96)),
    "names that fit the node lists of so many pods": job(task(replicas=4096), name="n" * 16),
    "replicas of several pods": job(
        task(podsPerReplica=2), task("none", name="learner-b"), task("none", name="learner-1x")
    ),
    "a leader that is like the others": leader({}),
    "a leader with another image and a container more": leader(
        {"spec": {"containers": [{"name": "di-container", "image": "b"}, {"name": "proxy"}]}}
    ),
    "as many pods as a job may have in replicas of several": job(
        task(replicas=4, podsPerReplica=1024)
    ),
    "the longest job name that fits": job(name="n" * 53),
    "the longest task name that fits": job(task("none", name="t" * 59), name="x"),
    "a generated name that fits": {
        "metadata": {"generateName": "n" * 47 + "-"},
        "spec": job()["spec"],
    },
    "reserved labels that repeat what the operator writes": with_template(
        labels={
            "diengine/job": "cartpole",
            "diengine/operator": "di-operator",
            "diengine/task-type": "learner",
            "diengine/task-name": "learner",
        }
    ),
    "a variable of the contract set by the user": with_template(
        {"containers": [{"name": "c", "env": [{"name": "DI_RANK", "value": "7"}]}]}
    ),
}


@pytest.mark.parametrize("good", GOOD_JOBS.values(), ids=GOOD_JOBS)
def test_accepted(good: Job) -> None:
    assert validate_job(good) == []


def test_the_loaded_spec_is_what_was_asked_for() -> None:
    learner, collector = template("learner"), template("collector")
    spec = load_leniently(
        {
            "tasks": [
                {"type": "learner", "template": learner},
                {
                    "type": "collector",
                    "name": "actors",
                    "replicas": 4,
                    "minReplicas": 2,
                    "maxReplicas": 8,
                    "dependsOn": ["learner"],
                    "template": collector,
                },
            ],
            "priority": "high",
            "volumes": [{"name": "data", "emptyDir": {}}],
            "activeDeadlineSeconds": 3600,
        }
    )
    assert spec == JobSpec(
        priority=Priority.HIGH,
        clean_pod_policy=CleanPodPolicy.RUNNING,
        preemptible=False,
        backoff_limit=3,
        volumes=({"name": "data", "emptyDir": {}},),
        active_deadline_seconds=3600,
        tasks=(
            Task(name="learner", type=TaskType.LEARNER, replicas=1, template=learner),
            Task(
                name="actors",
                type=TaskType.COLLECTOR,
                replicas=4,
                min_replicas=2,
                max_replicas=8,
                depends_on=("learner",),
                template=collector,
            ),
        ),
    )
    assert spec.replicas == 5
