"""Volumes, checkpoints and node checks: what is refused, and in which words."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, task, template

DISK = {"name": "disk", "hostPath": {"path": "/disk"}}
MOUNTED = template()
MOUNTED["spec"]["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/data/"}]
NAMED = template()
NAMED["spec"]["initContainers"] = [{"name": "di-node-check", "image": "a"}]

BAD = {
    "volumes that are no list": (job(volumes=1), "spec.volumes: 1: must be a list"),
    "two volumes of one name": (
        job(volumes=[{"name": "data"}, {"name": "data"}]),
        'spec.volumes[1].name: "data": is the name of another volume of the job already',
    ),
    "a volume of the job again in a template": (
        job(
            task(
                template={
                    "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "data"}]},
                }
            ),
            volumes=[{"name": "data"}],
        ),
        'spec.tasks[0].template.spec.volumes[0].name: "data": is the name of a volume in '
        "spec.volumes already",
    ),
    "a checkpoint nowhere": (
        job(task(), checkpoint={}),
        "spec.checkpoint.volume: is required, unless persistentVolumeClaim is given",
    ),
    "a checkpoint in two places": (
        job(task(), volumes=[DISK], checkpoint={"volume": "disk", "persistentVolumeClaim": "a"}),
        'spec.checkpoint.persistentVolumeClaim: "a": checkpoints are in a volume of the job or in '
        "a claim, not in both",
    ),
    "a checkpoint in an unknown volume": (
        job(task(), volumes=[DISK], checkpoint={"volume": "disc"}),
        'spec.checkpoint.volume: "disc": no volume in spec.volumes has that name',
    ),
    "a checkpoint that ends with its pod": (
        job(task(), volumes=[{"name": "a", "emptyDir": {}}], checkpoint={"volume": "a"}),
        'spec.checkpoint.volume: "a": is of the kind emptyDir, which ends with its pod',
    ),
    "a checkpoint in a volume without a source": (
        job(task(), volumes=[{"name": "a"}], checkpoint={"volume": "a"}),
        'spec.checkpoint.volume: "a": is of the kind emptyDir, which ends with its pod',
    ),
    "a checkpoint in a claim of no name": (
        job(task(), checkpoint={"persistentVolumeClaim": "A"}),
        'spec.checkpoint.persistentVolumeClaim: "A": must be lower-case letters, digits, dashes '
        "and dots, as a claim's name is",
    ),
    "a checkpoint below nothing": (
        job(task(), checkpoint={"persistentVolumeClaim": "a", "path": "models"}),
        'spec.checkpoint.path: "models": must be an absolute path such as /checkpoint, without . '
        "or .. or a colon",
    ),
    "a checkpoint where the operator's files are": (
        job(task(), checkpoint={"persistentVolumeClaim": "a", "path": "/etc/diengine/nodes/a"}),
        'spec.checkpoint.path: "/etc/diengine/nodes/a": /etc/diengine/nodes is where the operator '
        "puts its files",
    ),
    "a checkpoint without a time to write it": (
        job(task(), checkpoint={"persistentVolumeClaim": "a", "graceSeconds": 0}),
        "spec.checkpoint.graceSeconds: 0: must be 1 or more",
    ),
    "a checkpoint of no learner": (
        job(task("collector"), checkpoint={"persistentVolumeClaim": "a"}),
        "spec.checkpoint: an object: only learners have checkpoints, and this job has none",
    ),
    "a checkpoint over a learner's own files": (
        job(
            task(template=MOUNTED),
            task("collector", template=MOUNTED),
            volumes=[DISK],
            checkpoint={"volume": "disk", "path": "/data"},
        ),
        'spec.tasks[0].template.spec.containers[0].volumeMounts[0].mountPath: "/data/": is where '
        "spec.checkpoint is mounted; give one of them another path",
    ),
    "a volume that is called as that of checkpoints": (
        job(
            task(template={"spec": {**MOUNTED["spec"], "volumes": [{"name": "di-checkpoint"}]}}),
            checkpoint={"persistentVolumeClaim": "a"},
        ),
        'spec.tasks[0].template.spec.volumes[0].name: "di-checkpoint": is what the operator calls '
        "the volume of spec.checkpoint",
    ),
    "a check that would keep away from nodes that the allocator chose": (
        job(task(nodeCheck={}), preemptible=True),
        'spec.tasks[0].nodeCheck.action: "AvoidNode": must be Notify, for the allocator chooses '
        "the nodes of a preemptible job",
    ),
    "a check with another action": (
        job(task(nodeCheck={"action": "Cordon"})),
        'spec.tasks[0].nodeCheck.action: "Cordon": must be one of AvoidNode, Notify',
    ),
    "a check whose command is no list": (
        job(task(nodeCheck={"command": "check"})),
        'spec.tasks[0].nodeCheck.command: "check": must be a list',
    ),
    "a check with an argument that is no text": (
        job(task(nodeCheck={"command": ["check", 1]})),
        "spec.tasks[0].nodeCheck.command[1]: 1: must be a string",
    ),
    "a check with nothing for an argument": (
        job(task(nodeCheck={"command": [None]})),
        "spec.tasks[0].nodeCheck.command[0]: null: must be a string",
    ),
    "a check with too many arguments": (
        job(task(nodeCheck={"command": ["a"] * 65})),
        "spec.tasks[0].nodeCheck.command: a list of 65: must hold at most 64 arguments",
    ),
    "a check with too long an argument": (
        job(task(nodeCheck={"command": ["a" * 4097]})),
        f'spec.tasks[0].nodeCheck.command[0]: "{"a" * 77}...": '
        "must be at most 4096 characters long",
    ),
    "a container that is called as that of a check": (
        job(task(nodeCheck={}, template=NAMED)),
        'spec.tasks[0].template.spec.initContainers[0].name: "di-node-check": is the name of the '
        "container of the nodeCheck",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
