"""Every bad job is refused with the field, its value and what is allowed."""

from __future__ import annotations

import pytest

from di_api.spec import CleanPodPolicy, JobSpec, Priority, Task, TaskType
from di_api.validation import load_leniently, validate_job
from tests.unit.api.jobs import Job, job, leader, of_spec, task, template, with_template

LABEL = (
    "must be a DNS label: 1 to 63 lower-case letters, digits and dashes, "
    "with a letter or digit at both ends"
)
RPC = {"name": "rpc"}
LISTENING = template()
LISTENING["spec"]["containers"][0]["ports"] = [{"name": "rpc", "containerPort": 80}]
HTTP = {"name": "http", "port": 80}
ELASTIC_JAX = {"framework": "jax", "elastic": True}

DISK = {"name": "disk", "hostPath": {"path": "/disk"}}
MOUNTED = template()
MOUNTED["spec"]["containers"][0]["volumeMounts"] = [{"name": "disk", "mountPath": "/data/"}]
NAMED = template()
NAMED["spec"]["initContainers"] = [{"name": "di-node-check", "image": "a"}]
RULES = "spec.failurePolicy.rules"
COORDINATED = {"coordinated": {"coordinator": {"template": template()}}}


def failing(*rules: Job, memory: str | None = None) -> Job:
    """A job of a learner, whose container has that memory limit, and collectors."""
    result = job(task(), task("collector"), failurePolicy={"rules": [*rules]})
    (container,) = result["spec"]["tasks"][0]["template"]["spec"]["containers"]
    if memory is not None:
        container["resources"] = {"limits": {"memory": memory}}
    return result


BAD_SPECS = {
    "a gang that is not yes or no": (
        of_spec({"tasks": [task()], "scheduling": {"gang": "yes"}}),
        'spec.scheduling.gang: "yes": must be true or false',
    ),
    "a misspelt way of scheduling": (
        of_spec({"tasks": [task()], "scheduling": {"gnag": True}}),
        "spec.scheduling.gnag: true: unknown field; did you mean gang?",
    ),
    "scheduling that is no object": (
        of_spec({"tasks": [task()], "scheduling": []}),
        "spec.scheduling: []: must be an object",
    ),
    "an unknown framework": (
        job(task(processGroup={"framework": "tf"})),
        'spec.tasks[0].processGroup.framework: "tf": must be one of torch, jax, none',
    ),
    "a process group without processes": (
        job(task(processGroup={"processesPerReplica": 0})),
        "spec.tasks[0].processGroup.processesPerReplica: 0: must be 1 or more",
    ),
    "several processes of jax in a pod": (
        job(task(processGroup={"framework": "jax", "processesPerReplica": 2})),
        "spec.tasks[0].processGroup.processesPerReplica: 2: must be 1, jax has one process in "
        "each pod",
    ),
    "an elastic group of jax": (
        job(task(processGroup=ELASTIC_JAX, minReplicas=1, maxReplicas=2)),
        "spec.tasks[0].processGroup.elastic: true: must be false, jax takes no member in",
    ),
    "an elastic group without a least": (
        job(task(processGroup={"elastic": True}, maxReplicas=2)),
        "spec.tasks[0].processGroup.elastic: true: an elastic group needs minReplicas and "
        "maxReplicas; minReplicas is missing",
    ),
    "an elastic group without a most": (
        job(task(processGroup={"elastic": True}, minReplicas=1)),
        "spec.tasks[0].processGroup.elastic: true: an elastic group needs minReplicas and "
        "maxReplicas; maxReplicas is missing",
    ),
    "a last call after the deadline": (
        job(task(processGroup={"lastCallSeconds": 61, "deadlineSeconds": 60})),
        "spec.tasks[0].processGroup.lastCallSeconds: 61: must be at most deadlineSeconds, 60",
    ),
    "a negative last call": (
        job(task(processGroup={"lastCallSeconds": -1})),
        "spec.tasks[0].processGroup.lastCallSeconds: -1: must be 0 or more",
    ),
    "a Service without a port": (
        job(task(service={"ports": []})),
        "spec.tasks[0].service.ports: []: must hold at least one port",
    ),
    "a Service that says nothing of ports": (
        job(task(service={})),
        "spec.tasks[0].service.ports: is required",
    ),
    "more ports than a Service may have": (
        job(task(service={"ports": [{"name": f"p{n}", "port": n} for n in range(1, 18)]})),
        "spec.tasks[0].service.ports: a list of 17: must hold at most 16 ports",
    ),
    "a port of a Service without a name": (
        job(task(service={"ports": [{"port": 80}]})),
        "spec.tasks[0].service.ports[0].name: is required",
    ),
    "a port that there is not": (
        job(task(service={"ports": [{**HTTP, "port": 65536}]})),
        "spec.tasks[0].service.ports[0].port: 65536: must be 65535 or less",
    ),
    "a target that is no number of a port": (
        job(task(service={"ports": [{**HTTP, "targetPort": 0}]})),
        "spec.tasks[0].service.ports[0].targetPort: 0: must be 1 or more",
    ),
    "a target that is no name of a port": (
        job(task(service={"ports": [{**HTTP, "targetPort": "80"}]})),
        'spec.tasks[0].service.ports[0].targetPort: "80": must be a number, or the name of a port: '
        "1 to 15 lower-case letters, digits and single dashes between them, at least one letter",
    ),
    "a protocol in small letters": (
        job(task(service={"ports": [{**HTTP, "protocol": "tcp"}]})),
        'spec.tasks[0].service.ports[0].protocol: "tcp": must be one of TCP, UDP, SCTP',
    ),
    "an unknown choice of pods": (
        job(task(service={"ports": [HTTP], "select": "First"})),
        'spec.tasks[0].service.select: "First": must be one of All, Leaders',
    ),
    "two ports of one name": (
        job(task(service={"ports": [HTTP, {**HTTP, "port": 81}]})),
        'spec.tasks[0].service.ports[1].name: "http": is the name of another port of the Service '
        "already",
    ),
    "two ports of one number": (
        job(task(service={"ports": [HTTP, {**HTTP, "name": "b", "protocol": "TCP"}]})),
        "spec.tasks[0].service.ports[1].port: 80: spec.tasks[0].service.ports[0] has that number "
        "and protocol already",
    ),
    "a port without a name": (
        job(task(ports=[{"scope": "Job"}])),
        "spec.tasks[0].ports[0].name: is required",
    ),
    "a port with a name that no container's may have": (
        job(task(ports=[{"name": "a--b"}])),
        'spec.tasks[0].ports[0].name: "a--b": must be the name of a port: 1 to 15 lower-case '
        "letters, digits and single dashes between them, at least one letter",
    ),
    "a port of an unknown scope": (
        job(task(ports=[{"name": "rpc", "scope": "Task"}])),
        'spec.tasks[0].ports[0].scope: "Task": must be one of Pod, Job',
    ),
    "more ports than a task may have": (
        job(task(ports=[{"name": f"p{n}"} for n in range(17)])),
        "spec.tasks[0].ports: a list of 17: must hold at most 16 ports",
    ),
    "one port twice": (
        job(task(ports=[RPC, RPC])),
        'spec.tasks[0].ports[1].name: "rpc": is the name of another port of the task already',
    ),
    "a port under the name of the default one": (
        job(task(ports=[{"name": "di-port"}])),
        'spec.tasks[0].ports[0].name: "di-port": is a port of another meaning; declare it in the '
        "template",
    ),
    "a port that the template has": (
        job({**task(ports=[RPC]), "template": LISTENING}),
        'spec.tasks[0].ports[0].name: "rpc": is the name of a port of a container in the template '
        "already",
    ),
    "a port of each pod that is one of the job elsewhere": (
        job(task(ports=[RPC]), task("collector", ports=[{**RPC, "scope": "Job"}])),
        'spec.tasks[0].ports[0].name: "rpc": is the name of spec.tasks[1].ports[0] already, a port '
        "of scope Job",
    ),
    "a port with the variable of a task's addresses": (
        job(task("none", name="port-a", ports=[{"name": "a-nodes"}])),
        'spec.tasks[0].ports[0].name: "a-nodes": DI_PORT_A_NODES is a variable of task port-a '
        "already",
    ),
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
    "a misspelt field of the job": (
        job(backofLimit=2),
        "spec.backofLimit: 2: unknown field; did you mean backoffLimit?",
    ),
    "a field of the job in the wrong case": (
        job(cleanpodpolicy="All"),
        'spec.cleanpodpolicy: "All": unknown field; did you mean cleanPodPolicy?',
    ),
    "a misspelt field of a task": (
        job(task(replica=2)),
        "spec.tasks[0].replica: 2: unknown field; did you mean replicas?",
    ),
    "a field nothing resembles": (
        job(task(xyzzy=2)),
        "spec.tasks[0].xyzzy: 2: unknown field; the fields here are activeDeadlineSeconds, "
        "backoffLimit, dependsOn, drain, elastic, leaderTemplatePatch, maxReplicas, minReplicas, "
        "name, nodeCheck, podsPerReplica, ports, processGroup, replicas, restartedAt, service, "
        "standby, template, type, vacant",
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
    "a success policy of an unknown task": (
        job(task(), successPolicy={"tasks": ["learner", "critic"]}),
        'spec.successPolicy.tasks[1]: "critic": no task of this job has that name',
    ),
    "a success policy that names a task twice": (
        job(task(), successPolicy={"tasks": ["learner", "learner"]}),
        'spec.successPolicy.tasks[1]: "learner": is listed already',
    ),
    "a success policy of no task": (
        job(task(), successPolicy={"tasks": []}),
        "spec.successPolicy.tasks: []: must name a task",
    ),
    "a success policy without tasks": (
        job(task(), successPolicy={}),
        "spec.successPolicy.tasks: is required",
    ),
    "a success policy with time running backwards": (
        job(task(), successPolicy={"tasks": ["learner"], "gracePeriodSeconds": -1}),
        "spec.successPolicy.gracePeriodSeconds: -1: must be 0 or more",
    ),
    "a success policy with another operator": (
        job(task(), successPolicy={"tasks": ["learner"], "operator": "Most"}),
        'spec.successPolicy.operator: "Most": must be one of All, Any',
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
    "a failure policy of an unknown task": (
        failing({"tasks": ["learner", "critic"]}),
        f'{RULES}[0].tasks[1]: "critic": no task of this job has that name',
    ),
    "a failure policy of an unknown role": (
        of_spec(COORDINATED | {"failurePolicy": {"rules": [{"tasks": ["evaluator"]}]}}),
        f'{RULES}[0].tasks[0]: "evaluator": no task of this job has that name',
    ),
    "a rule that hides those after it": (
        failing({"action": "FailJob"}, {"onReasons": ["Evicted"]}),
        f"{RULES}[0]: an object: every failure fits this rule, so those after it are never reached",
    ),
    "a rule with another action": (
        failing({"action": "Explode"}),
        f'{RULES}[0].action: "Explode": must be one of Restart, Ignore, FailJob, RestartTask, '
        "RestartJob, RestartInPlace",
    ),
    "a container that goes on with more memory": (
        failing(
            {"action": "RestartInPlace", "growMemory": {}},
            {"onReasons": ["Evicted"], "action": "Ignore"},
            memory="1Gi",
        ),
        f"{RULES}[0].growMemory: {{}}: goes with actions that make another pod, not with "
        "RestartInPlace",
    ),
    "a container that goes on elsewhere": (
        failing({"action": "RestartInPlace", "avoidNode": True}),
        f"{RULES}[0].avoidNode: true: goes with actions that make another pod, not with "
        "RestartInPlace",
    ),
    "a coordinated job that restarts in place": (
        of_spec(COORDINATED | {"failurePolicy": {"rules": [{"action": "RestartInPlace"}]}}),
        f'{RULES}[0].action: "RestartInPlace": the templates of a coordinated job have a '
        "restartPolicy of their own",
    ),
    "replicas of several pods that restart in place": (
        job(
            task(),
            task("collector", podsPerReplica=2),
            failurePolicy={
                "rules": [
                    {"tasks": ["learner"], "action": "RestartInPlace"},
                    {"tasks": ["collector"], "action": "RestartInPlace"},
                ]
            },
        ),
        f'{RULES}[1].action: "RestartInPlace": replicas of task collector are of several pods, and '
        "made anew as a whole; name the tasks that the rule is about, without it",
    ),
    "all replicas that restart in place, some of several pods": (
        job(task(podsPerReplica=2), failurePolicy={"rules": [{"action": "RestartInPlace"}]}),
        f'{RULES}[0].action: "RestartInPlace": replicas of task learner are of several pods, and '
        "made anew as a whole; name the tasks that the rule is about, without it",
    ),
    "a rule about exit code 0": (
        failing({"onExitCodes": {"operator": "In", "values": [0, 3]}}),
        f"{RULES}[0].onExitCodes.values: a list of 2: a container that failed has another exit "
        "code",
    ),
    "a rule about no exit code": (
        failing({"onExitCodes": {"operator": "NotIn", "values": []}}),
        f"{RULES}[0].onExitCodes.values: []: must hold at least one exit code",
    ),
    "a rule about one exit code twice": (
        failing({"onExitCodes": {"operator": "NotIn", "values": [3, 3]}}),
        f"{RULES}[0].onExitCodes.values: a list of 2: must hold no exit code twice",
    ),
    "a rule about an exit code that there is not": (
        failing({"onExitCodes": {"operator": "In", "values": [256]}}),
        f"{RULES}[0].onExitCodes.values[0]: 256: must be 255 or less",
    ),
    "a rule about exit codes without an operator": (
        failing({"onExitCodes": {"values": [1]}}),
        f"{RULES}[0].onExitCodes.operator: is required",
    ),
    "growth in a job without memory limits": (
        failing({"growMemory": {}}),
        f"{RULES}[0].growMemory: {{}}: no container of any task has a memory limit, so there is "
        "nothing to grow",
    ),
    "growth of a task without a memory limit": (
        failing({"tasks": ["collector"], "growMemory": {}}, memory="4Gi"),
        f"{RULES}[0].growMemory: {{}}: no container of task collector has a memory limit, so there "
        "is nothing to grow",
    ),
    "growth to less than there is": (
        failing({"tasks": ["learner"], "growMemory": {"limit": "2Gi"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.limit: "2Gi": is less than the memory limit that a container of '
        "task learner has",
    ),
    "growth by a factor that shrinks": (
        failing({"growMemory": {"factor": 1}}, memory="4Gi"),
        f"{RULES}[0].growMemory.factor: 1: must be 2 or more",
    ),
    "growth by steps of nothing": (
        failing({"growMemory": {"maxStep": "0"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.maxStep: "0": must be more than 0',
    ),
    "growth to what is no amount": (
        failing({"growMemory": {"limit": "lots"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.limit: "lots": must be a quantity, such as 2, 500m or 1.5Gi',
    ),
    "growth to less than nothing": (
        failing({"growMemory": {"limit": "-1Gi"}}, memory="4Gi"),
        f'{RULES}[0].growMemory.limit: "-1Gi": must not be negative',
    ),
    "growth of a pod that ends the job": (
        failing({"action": "FailJob", "growMemory": {}}, memory="4Gi"),
        f"{RULES}[0].growMemory: {{}}: goes with actions that count a restart, not with FailJob",
    ),
    "an avoided node of a failure that is none": (
        failing({"action": "Ignore", "avoidNode": True}),
        f"{RULES}[0].avoidNode: true: goes with actions that count a restart, not with Ignore",
    ),
    "a negative number of restarts of a replica": (
        job(task(), failurePolicy={"replicaBackoffLimit": -1}),
        "spec.failurePolicy.replicaBackoffLimit: -1: must be 0 or more",
    ),
    "a reset after no time": (
        job(task(), failurePolicy={"resetAfterSeconds": 0}),
        "spec.failurePolicy.resetAfterSeconds: 0: must be 1 or more",
    ),
    "more rules than there may be": (
        job(task(), failurePolicy={"rules": [{"tasks": ["learner"]}] * 33}),
        f"{RULES}: a list of 33: must hold at most 32 rules",
    ),
    "a negative limit of a task": (
        job(task(backoffLimit=-1)),
        "spec.tasks[0].backoffLimit: -1: must be 0 or more",
    ),
    "a limit of a task in another word": (
        job(task(backoffLimit="unlimited")),
        'spec.tasks[0].backoffLimit: "unlimited": must be Unlimited, or a number',
    ),
    "a limit of a task that is no number": (
        job(task(backoffLimit=True)),
        "spec.tasks[0].backoffLimit: true: must be a whole number, 0 or more",
    ),
    "a job that may never come up": (
        job(pendingTimeoutSeconds=0),
        "spec.pendingTimeoutSeconds: 0: must be 1 or more",
    ),
    "a task without any time": (
        job(task(activeDeadlineSeconds=-1)),
        "spec.tasks[0].activeDeadlineSeconds: -1: must be 1 or more",
    ),
    "a progress policy without a time": (
        job(progressPolicy={"action": "Notify"}),
        "spec.progressPolicy.timeoutSeconds: is required",
    ),
    "a progress policy that hangs at once": (
        job(progressPolicy={"timeoutSeconds": 0}),
        "spec.progressPolicy.timeoutSeconds: 0: must be 1 or more",
    ),
    "a first time-out that is the shorter one": (
        job(progressPolicy={"timeoutSeconds": 600, "firstTimeoutSeconds": 599}),
        "spec.progressPolicy.firstTimeoutSeconds: 599: must be at least timeoutSeconds, 600",
    ),
    "an unknown action": (
        job(progressPolicy={"timeoutSeconds": 600, "action": "Restart"}),
        'spec.progressPolicy.action: "Restart": must be one of Notify, RestartTask, RestartJob, '
        "FailJob",
    ),
    "a restart of an unknown task": (
        job(progressPolicy={"timeoutSeconds": 9, "action": "RestartTask", "tasks": ["critic"]}),
        'spec.progressPolicy.tasks[0]: "critic": no task of this job has that name',
    ),
    "a restart of no task": (
        job(progressPolicy={"timeoutSeconds": 9, "action": "RestartTask", "tasks": []}),
        "spec.progressPolicy.tasks: []: must name a task, or be left out",
    ),
    "tasks to restart, and nothing that restarts them": (
        job(progressPolicy={"timeoutSeconds": 9, "action": "RestartJob", "tasks": ["learner"]}),
        "spec.progressPolicy.tasks: a list of 1: goes with action RestartTask",
    ),
    "a restart of a task in a job with a coordinator": (
        of_spec(
            {
                "coordinated": {
                    "coordinator": {"template": template()},
                    "collector": {"template": template()},
                },
                "progressPolicy": {"timeoutSeconds": 9, "action": "RestartTask"},
            }
        ),
        'spec.progressPolicy.action: "RestartTask": a job with a coordinator has no tasks; '
        "RestartJob restarts all its pods",
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

BAD_OUTSIDE_SPEC = {
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


# What the operator refuses as well, should the webhook have been away.
@pytest.mark.parametrize(("bad", "message"), BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_spec_is_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


@pytest.mark.parametrize(("bad", "message"), BAD_OUTSIDE_SPEC.values(), ids=BAD_OUTSIDE_SPEC)
def test_a_job_is_refused_with_its_name(bad: Job, message: str) -> None:
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
