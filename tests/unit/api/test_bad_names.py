"""Names, labels and leaders: what is refused, and in which words."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, leader, task, with_template

HTTP = {"name": "http", "port": 80}

BAD = {
    "a job without a name": ({"spec": job()["spec"]}, "metadata.name: must be a name, a string"),
    "a job name with a dot": (
        job(name="cart.pole"),
        'metadata.name: "cart.pole": must be lower-case letters, digits and dashes, with a letter '
        "or digit at both ends: the names of pods and their DNS names are made from it",
    ),
    "a job name that leaves pods no room": (
        job(task(replicas=11), name="n" * 53),
        f'metadata.name: "{"n" * 53}": 53 characters are too many, its pod <name>-learner-10 may '
        f'have 63; the longest name that fits has 52, such as "{"n" * 52}"',
    ),
    "a job name that leaves no room for maxReplicas": (
        job(task(maxReplicas=101), name="n" * 52),
        f'metadata.name: "{"n" * 52}": 52 characters are too many, its pod <name>-learner-100 may '
        f'have 63; the longest name that fits has 51, such as "{"n" * 51}"',
    ),
    "a job name that leaves its Service no room": (
        job(task("none", name="a"), name="n" * 61),
        f'metadata.name: "{"n" * 61}": 61 characters are too many, its pod <name>-a-0 may have 63; '
        f'the longest name that fits has 59, such as "{"n" * 59}"',
    ),
    "names too long for the node lists of so many pods": (
        job(task(maxReplicas=4096), name="n" * 50),
        "spec.tasks: a list of 1: may reach 4096 pods, whose DNS names take 1368064 bytes of the "
        "1048576 that node lists may have: with names as long as these there is room for 3139 "
        "pods; lower replicas or maxReplicas, or shorten the name of the job, of its tasks or of "
        "its namespace",
    ),
    "a job name that no Service of a task can begin with": (
        job(task(service={"ports": [HTTP]}), name="1st"),
        'metadata.name: "1st": must begin with a letter: task learner has a Service, <job>-learner',
    ),
    "a Service of a task under the name of the job's own": (
        job(task("none", name="di", service={"ports": [HTTP]}), name="di-di"),
        'spec.tasks[0].name: "di": its Service di-di-di would be the one that the job has for all '
        "its pods",
    ),
    "a generated name that will not fit": (
        {"metadata": {"generateName": "n" * 49 + "-"}, "spec": job()["spec"]},
        f'metadata.generateName: "{"n" * 49}-": 50 characters are too many, its pod '
        "<name>-learner-0 may have 63; the longest name that fits has 48, such as "
        f'"{"n" * 48}"',
    ),
    "a task name that leaves no room for a job": (
        job(task("none", name="t" * 60), name="cart"),
        f'spec.tasks[0].name: "{"t" * 60}": 60 characters are too many, pods are named '
        f"<job>-{'t' * 60}-0 and may have 63; the longest name that fits has 56",
    ),
    "a label of the operator with another value": (
        with_template(labels={"diengine/job": "another"}),
        'spec.tasks[0].template.metadata.labels["diengine/job"]: "another": '
        'is written by the operator as "cartpole"',
    ),
    "a leader with a label of the operator": (
        leader({"metadata": {"labels": {"diengine/job": "another"}}}),
        'spec.tasks[0].leaderTemplatePatch.metadata.labels["diengine/job"]: "another": '
        'is written by the operator as "cartpole"',
    ),
    "a leader without containers": (
        leader({"spec": {"containers": []}}),
        "spec.tasks[0].leaderTemplatePatch.spec.containers: []: must hold at least one container",
    ),
    "a leader with a field that is none": (
        leader({"spec": {"containers": [{"name": "di-container", "imagee": "a"}]}}),
        'spec.tasks[0].leaderTemplatePatch.spec.containers[0].imagee: "a": unknown field; '
        "did you mean image?",
    ),
    "a leader whose restartPolicy is no text": (
        leader({"spec": {"restartPolicy": 1}}),
        "spec.tasks[0].leaderTemplatePatch.spec.restartPolicy: 1: must be a string",
    ),
    "a leader that asks for more than its limit": (
        leader(
            {
                "spec": {
                    "containers": [
                        {
                            "name": "di-container",
                            "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}},
                        }
                    ]
                }
            }
        ),
        "spec.tasks[0].leaderTemplatePatch.spec.containers[0].resources.requests.cpu: 2: "
        "must be at most the limit, 1",
    ),
    "a leader in too many words": (
        leader({"metadata": {"annotations": {"a": "x" * 16_384}}}),
        "spec.tasks[0].leaderTemplatePatch: an object: may have 16384 characters",
    ),
    "an annotation that differs from pod to pod": (
        with_template(annotations={"diengine/rank": "0"}),
        'spec.tasks[0].template.metadata.annotations["diengine/rank"]: "0": '
        "is written by the operator for each pod; leave it out",
    ),
    "an unknown key of the reserved prefix": (
        with_template(labels={"diengine/colour": "red"}),
        'spec.tasks[0].template.metadata.labels["diengine/colour"]: "red": '
        "keys of diengine/ are reserved",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
