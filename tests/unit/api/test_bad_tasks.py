"""Tasks, their replicas and templates: what is refused, and in which words."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, of_spec, task, template, with_template

LABEL = (
    "must be a DNS label: 1 to 63 lower-case letters, digits and dashes, "
    "with a letter or digit at both ends"
)

BAD = {
    "no tasks at all": (
        of_spec({}),
        "spec.tasks: is required, unless the job has a coordinator",
    ),
    "an empty list of tasks": (
        of_spec({"tasks": []}),
        "spec.tasks: []: must hold at least one task",
    ),
    "tasks that are no list": (
        of_spec({"tasks": {"a": 1}}),
        "spec.tasks: an object: must be a list",
    ),
    "more tasks than the rules can compare": (
        job(*[task("none", name=f"t{index}") for index in range(65)]),
        "spec.tasks: a list of 65: must hold at most 64 tasks",
    ),
    "a task that is no object": (
        of_spec({"tasks": [task(), "evaluator"]}),
        'spec.tasks[1]: "evaluator": must be an object',
    ),
    "two learners without a name of their own": (
        job(task(), task()),
        'spec.tasks[1].name: "learner": is the name of spec.tasks[0] already; of several tasks of '
        "a type at most one goes without a name of its own",
    ),
    "a task of type none without a name": (
        job(task("none")),
        "spec.tasks[0].name: is required unless the type is learner, collector or evaluator",
    ),
    "two tasks of one name": (
        job(task("none", name="a"), task("none", name="a")),
        'spec.tasks[1].name: "a": is the name of spec.tasks[0] already',
    ),
    "a name that another task has by default": (
        job(task("learner"), task("none", name="learner")),
        'spec.tasks[1].name: "learner": is the name of spec.tasks[0] already',
    ),
    "an empty task name": (job(task(name="")), f'spec.tasks[0].name: "": {LABEL}'),
    "a task name in capitals": (job(task(name="Actor")), f'spec.tasks[0].name: "Actor": {LABEL}'),
    "a task name that ends in a newline": (
        job(task(name="a\n")),
        f'spec.tasks[0].name: "a\\n": {LABEL}',
    ),
    "a task name of 64 characters": (
        job(task(name="a" * 64)),
        f'spec.tasks[0].name: "{"a" * 64}": {LABEL}',
    ),
    "an unknown type": (
        job(task("lerner", name="a")),
        'spec.tasks[0].type: "lerner": must be one of learner, collector, evaluator, none',
    ),
    "a task without a type": (
        job({"name": "a", "template": template()}),
        "spec.tasks[0].type: is required",
    ),
    "a task without a template": (job({"type": "learner"}), "spec.tasks[0].template: is required"),
    "a template that is no object": (
        job(task(template="busybox")),
        'spec.tasks[0].template: "busybox": must be an object',
    ),
    "a container's request above its limit": (
        with_template(
            {
                "containers": [
                    {
                        "name": "a",
                        "resources": {"requests": {"cpu": "1.5"}, "limits": {"cpu": "1"}},
                    }
                ]
            }
        ),
        'spec.tasks[0].template.spec.containers[0].resources.requests.cpu: "1.5": must be at most '
        "the limit, 1",
    ),
    "an init container's request above its limit": (
        with_template(
            {
                "initContainers": [
                    {
                        "name": "a",
                        "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1G"}},
                    }
                ]
            }
        ),
        'spec.tasks[0].template.spec.initContainers[0].resources.requests.memory: "1Gi": must be '
        "at most the limit, 1G",
    ),
    "a pod's request above its limit": (
        with_template({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}),
        "spec.tasks[0].template.spec.resources.requests.cpu: 2: must be at most the limit, 1",
    ),
    "no replicas": (job(task(replicas=0)), "spec.tasks[0].replicas: 0: must be 1 or more"),
    "negative replicas": (job(task(replicas=-1)), "spec.tasks[0].replicas: -1: must be 1 or more"),
    "replicas as text": (
        job(task(replicas="two")),
        'spec.tasks[0].replicas: "two": must be a whole number, 1 or more',
    ),
    "half a replica": (
        job(task(replicas=1.5)),
        "spec.tasks[0].replicas: 1.5: must be a whole number, 1 or more",
    ),
    "true replicas": (
        job(task(replicas=True)),
        "spec.tasks[0].replicas: true: must be a whole number, 1 or more",
    ),
    "more replicas than a job may have pods": (
        job(task(replicas=100_000)),
        "spec.tasks: a list of 1: may reach 100000 pods, of each task the larger of replicas and "
        "maxReplicas counted, and a job may have 4096; lower some, or make it several jobs",
    ),
    "a bound of scaling above what a job may have": (
        job(task(maxReplicas=4097)),
        "spec.tasks: a list of 1: may reach 4097 pods, of each task the larger of replicas and "
        "maxReplicas counted, and a job may have 4096; lower some, or make it several jobs",
    ),
    "replicas past 32 bits": (
        job(task(replicas=2**31)),
        "spec.tasks[0].replicas: 2147483648: must be 2147483647 or less",
    ),
    "tasks that may reach too many pods together": (
        job(task(maxReplicas=4000), task("collector", replicas=97)),
        "spec.tasks: a list of 2: may reach 4097 pods, of each task the larger of replicas and "
        "maxReplicas counted, and a job may have 4096; lower some, or make it several jobs",
    ),
    "a replica of no pod": (
        job(task(podsPerReplica=0)),
        "spec.tasks[0].podsPerReplica: 0: must be 1 or more",
    ),
    "a replica of too many pods": (
        job(task(podsPerReplica=1025)),
        "spec.tasks[0].podsPerReplica: 1025: must be 1024 or less",
    ),
    "pods per replica as text": (
        job(task(podsPerReplica="2")),
        'spec.tasks[0].podsPerReplica: "2": must be a whole number, 1 or more',
    ),
    "too many pods in all replicas together": (
        job(task(replicas=3, maxReplicas=5, podsPerReplica=1000)),
        "spec.tasks: a list of 1: may reach 5000 pods, of each task the larger of replicas and "
        "maxReplicas counted, and a job may have 4096; lower some, or make it several jobs",
    ),
    "an elastic group of such replicas": (
        job(task(podsPerReplica=2, minReplicas=1, maxReplicas=2, processGroup={"elastic": True})),
        "spec.tasks[0].processGroup.elastic: true: must be false with podsPerReplica above 1, each "
        "replica is a group of its own",
    ),
    "a task named as a replica of another": (
        job(task("none", name="a", podsPerReplica=2), task("none", name="a-11")),
        'spec.tasks[1].name: "a-11": the pods of spec.tasks[0] are named so; choose another name',
    ),
    "a leader where each pod is one": (
        job(task(leaderTemplatePatch={"spec": {}})),
        "spec.tasks[0].leaderTemplatePatch: an object: needs podsPerReplica above 1; change "
        "the template of the task",
    ),
    "a leader that is no object": (
        job(task(podsPerReplica=2, leaderTemplatePatch=[])),
        "spec.tasks[0].leaderTemplatePatch: []: must be an object",
    ),
    "min above max": (
        job(task(minReplicas=3, maxReplicas=2)),
        "spec.tasks[0].minReplicas: 3: must be at most maxReplicas, 2",
    ),
    "fewer replicas than min": (
        job(task(replicas=1, minReplicas=2)),
        "spec.tasks[0].replicas: 1: must be at least minReplicas, 2",
    ),
    "more replicas than max": (
        job(task(replicas=3, maxReplicas=2)),
        "spec.tasks[0].replicas: 3: must be at most maxReplicas, 2",
    ),
    "a min of zero": (job(task(minReplicas=0)), "spec.tasks[0].minReplicas: 0: must be 1 or more"),
    "a misspelt field of a task": (
        job(task(replica=2)),
        "spec.tasks[0].replica: 2: unknown field; did you mean replicas?",
    ),
    "a field nothing resembles": (
        job(task(xyzzy=2)),
        "spec.tasks[0].xyzzy: 2: unknown field; the fields here are activeDeadlineSeconds, "
        "backoffLimit, dependsOn, drain, elastic, leaderTemplatePatch, maxReplicas, "
        "maxUnavailable, minReplicas, name, nodeCheck, podsPerReplica, ports, processGroup, "
        "replicas, restartedAt, scalable, service, standby, template, type, vacant",
    ),
    "dependsOn of an unknown task": (
        job(task(dependsOn=["collector"])),
        'spec.tasks[0].dependsOn[0]: "collector": no task of this job has that name',
    ),
    "a task that waits for itself": (
        job(task(dependsOn=["learner"])),
        'spec.tasks[0].dependsOn[0]: "learner": a task cannot wait for itself',
    ),
    "one dependency listed twice": (
        job(task(), task("collector", dependsOn=["learner", "learner"])),
        'spec.tasks[1].dependsOn[1]: "learner": is listed already',
    ),
    "tasks that wait in a circle": (
        job(
            task("evaluator", dependsOn=["collector"]),
            task("learner", dependsOn=["collector"]),
            task("collector", dependsOn=["learner"]),
        ),
        "spec.tasks[2].dependsOn: a list of 1: tasks wait for each other in a circle: "
        "collector -> learner -> collector",
    ),
    "dependsOn as one name": (
        job(task(dependsOn="collector")),
        'spec.tasks[0].dependsOn: "collector": must be a list',
    ),
    "a template without a pod spec": (
        job(task(template={})),
        "spec.tasks[0].template.spec: must be the pod spec, an object",
    ),
    "a template without containers": (
        job(task(template={"spec": {}})),
        "spec.tasks[0].template.spec.containers: must hold at least one container",
    ),
    "an empty list of containers": (
        with_template({"containers": []}),
        "spec.tasks[0].template.spec.containers: []: must hold at least one container",
    ),
    "a container without a name": (
        with_template({"containers": [{"image": "busybox"}]}),
        "spec.tasks[0].template.spec.containers[0].name: is required",
    ),
    "two containers of one name": (
        with_template({"containers": [{"name": "a"}, {"name": "a"}]}),
        'spec.tasks[0].template.spec.containers[1].name: "a": is the name of another container '
        "already",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
