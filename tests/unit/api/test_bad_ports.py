"""How pods of a task find each other: what is refused, and in which words."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, task, template

RPC = {"name": "rpc"}
LISTENING = template()
LISTENING["spec"]["containers"][0]["ports"] = [{"name": "rpc", "containerPort": 80}]
HTTP = {"name": "http", "port": 80}
ELASTIC_JAX = {"framework": "jax", "elastic": True}

BAD = {
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
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_refused(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
