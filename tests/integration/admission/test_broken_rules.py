"""Each rule that relates fields of a job to each other, by the policy and by the webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from di_api.crd.policy import validations
from di_api.frameworks import FRAMEWORKS
from di_api.names import API_VERSION, KIND
from di_api.spec.bounds import MAX_PODS, MAX_SPEC_BYTES
from di_kube.config import KubeConfig
from di_kube.errors import Invalid
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from di_kube.wire import JSON_PATCH
from tests.integration.admitting import admitting, policing
from tests.integration.conftest import ApiServer, fresh_namespace
from tests.integration.webhook_process import webhook_process

Object = dict[str, Any]


def template(*variables: Object) -> Object:
    container: Object = {"name": "di-container", "image": "busybox"}
    if variables:
        container["env"] = [*variables]
    return {"spec": {"containers": [container]}}


def task(name: str, **fields: Any) -> Object:
    return {"type": "none", "name": name, "template": template(), **fields}


def tasks(*listed: Object, **spec: Any) -> Object:
    return {"tasks": [task("first"), *listed], **spec}


def second(**fields: Any) -> Object:
    """A spec whose second task has these fields."""
    return tasks(task("second", **fields))


def cluster(name: str, *, elastic: bool = False, **fields: Any) -> Object:
    """A task of a cluster of TensorFlow."""
    group = {"framework": "tensorflow", "elastic": elastic}
    return task(name, processGroup=group, **fields)


def coordinated(**spec: Any) -> Object:
    return {"coordinated": {"coordinator": {"template": template()}, "replicas": []}, **spec}


def scheduled(**fields: Any) -> Object:
    return tasks(preemptible=True, scheduling=fields)


def failing(**rule: Any) -> Object:
    return tasks(failurePolicy={"rules": [rule]})


TORCH = {"framework": "torch"}
ELASTIC = {"priorityClassName": "spot", "templatePatch": {}}
CLAIM = {"persistentVolumeClaim": "claim"}
CODE = {"configMap": "a", "sha256": "0" * 64}
TIER = {"minReplicas": 1, "maxReplicas": 2, "elastic": ELASTIC}
PROGRESS = {"timeoutSeconds": 10}
TOPOLOGY = [{"tasks": ["first"], "required": "example.com/rack"}]
HTTP = {"name": "http", "port": 80}

# By the beginning of the rule's message, or all of it: a spec that breaks this rule alone, and the
# path by which the webhook names it.
BROKEN: dict[str, tuple[Object, str]] = {
    "spec: a job may have 262144 bytes": (
        {"tasks": [task("a", template=template({"name": "A", "value": "x" * MAX_SPEC_BYTES}))]},
        "spec",
    ),
    "spec: exactly one of tasks and coordinated": ({"group": "a"}, "spec.tasks"),
    "spec: the allocator chooses the nodes of a preemptible job": (
        {**second(nodeCheck={"action": "AvoidNode"}), "preemptible": True},
        "spec.tasks[1].nodeCheck",
    ),
    "spec: the allocator chooses which replicas": (
        {**second(vacant=[0]), "preemptible": True},
        "spec.tasks[1].vacant",
    ),
    "spec.failurePolicy: RestartInPlace goes with tasks": (
        coordinated(failurePolicy={"rules": [{"action": "RestartInPlace"}]}),
        "spec.failurePolicy",
    ),
    "spec.failurePolicy: RestartInPlace does not go with podsPerReplica": (
        {
            **second(podsPerReplica=2),
            "failurePolicy": {"rules": [{"action": "RestartInPlace"}]},
        },
        "spec.failurePolicy",
    ),
    "spec: elastic of a task goes neither": (
        {**second(**TIER), "scheduling": {"gang": True}},
        "spec.tasks[1].elastic",
    ),
    "spec: standby of a task goes neither": (
        {**second(standby=1), "scheduling": {"gang": True}},
        "spec.tasks[1].standby",
    ),
    "spec: scalable of a task does not go with preemptible": (
        {**second(scalable=True, maxReplicas=2), "preemptible": True},
        "spec.tasks[1].scalable",
    ),
    "spec.scheduling.gangScheduler: ": (
        scheduled(gangScheduler="volcano"),
        "spec.scheduling.gangScheduler",
    ),
    "spec.scheduling.topology: ": (scheduled(topology=TOPOLOGY), "spec.scheduling.topology"),
    "spec.scheduling.provisioningClassName: provisioningClassName goes neither": (
        scheduled(provisioningClassName="check-capacity"),
        "spec.scheduling.provisioningClassName",
    ),
    "spec.scheduling.provisioningClassName: a ProvisioningRequest": (
        tasks(
            *(task(f"task-{number}") for number in range(40)),
            scheduling={"provisioningClassName": "check-capacity"},
        ),
        "spec.scheduling.provisioningClassName",
    ),
    "spec.scheduling: queue goes with": (
        tasks(scheduling={"queue": "rl"}),
        "spec.scheduling.queue",
    ),
    "spec.progressPolicy: firstTimeoutSeconds": (
        tasks(progressPolicy={**PROGRESS, "firstTimeoutSeconds": 1}),
        "spec.progressPolicy.firstTimeoutSeconds",
    ),
    "spec.idlePolicy: needs": (tasks(idlePolicy={"seconds": 60}), "spec.idlePolicy"),
    "spec.idlePolicy.action: ScaleDown needs": (
        tasks(idlePolicy={"waitingShare": 80, "action": "ScaleDown"}),
        "spec.idlePolicy.action",
    ),
    "spec.progressPolicy.action: a job with a coordinator": (
        coordinated(progressPolicy={**PROGRESS, "action": "RestartTask"}),
        "spec.progressPolicy",
    ),
    "spec.progressPolicy: tasks goes with": (
        tasks(progressPolicy={**PROGRESS, "tasks": ["first"]}),
        "spec.progressPolicy.tasks",
    ),
    "spec.template: is merged into": (coordinated(template=template()), "spec.template"),
    "spec.tasks: names of tasks must be unique": (tasks(task("first")), "spec.tasks[1].name"),
    "spec.tasks: a job may have 4096 pods": (second(replicas=MAX_PODS), "spec.tasks"),
    "spec.tasks[].name: a task of type none": (
        tasks({"type": "none", "template": template()}),
        "spec.tasks[1].name",
    ),
    "spec.tasks[].replicas: must be between": (
        second(replicas=3, maxReplicas=2),
        "spec.tasks[1].replicas",
    ),
    "spec.tasks[].scalable: needs": (second(scalable=True), "spec.tasks[1].scalable"),
    "spec.tasks[].leaderTemplatePatch: needs": (
        second(leaderTemplatePatch={}),
        "spec.tasks[1].leaderTemplatePatch",
    ),
    "spec.tasks[].elastic: elastic needs": (second(elastic=ELASTIC), "spec.tasks[1].elastic"),
    "spec.tasks[].elastic: does not go": (
        second(**TIER, processGroup=TORCH),
        "spec.tasks[1].elastic",
    ),
    "spec.tasks[].standby: goes neither": (
        second(standby=1, podsPerReplica=2),
        "spec.tasks[1].standby",
    ),
    "spec.tasks[].standby: needs a processGroup": (
        second(standby=1, processGroup=TORCH),
        "spec.tasks[1].standby",
    ),
    "spec.tasks[].standby: the ports": (
        second(standby=1, ports=[{"name": "rpc"}]),
        "spec.tasks[1].ports[0].scope",
    ),
    "spec.tasks[].dependsOn: a task cannot": (
        second(dependsOn=["second"]),
        "spec.tasks[1].dependsOn",
    ),
    "spec.tasks[].service.ports: names": (
        second(service={"ports": [HTTP, {**HTTP, "port": 81}]}),
        "spec.tasks[1].service.ports",
    ),
    "spec.tasks[].vacant: the ranks": (
        second(processGroup=TORCH, vacant=[0]),
        "spec.tasks[1].vacant",
    ),
    "spec.tasks[].vacant: the core": (
        second(**TIER, vacant=[0]),
        "spec.tasks[1].vacant",
    ),
    "spec.tasks[].drain: exactly one": (second(drain={}), "spec.tasks[1].drain"),
    "spec.tasks[].drain: port goes with path": (
        second(drain={"command": ["a"], "port": 80}),
        "spec.tasks[1].drain",
    ),
    "spec.tasks[].drain.path: must begin": (
        second(drain={"path": "drain", "port": 80}),
        "spec.tasks[1].drain.path",
    ),
    "spec.tasks[].ports: names of ports": (
        second(ports=[{"name": "di-port"}]),
        "spec.tasks[1].ports",
    ),
    **{
        f"spec.tasks[].processGroup.processesPerReplica: must be 1, {each.single_process}": (
            second(processGroup={"framework": name.value, "processesPerReplica": 2}),
            "spec.tasks[1].processGroup.processesPerReplica",
        )
        for name, each in FRAMEWORKS.items()
        if each.single_process
    },
    **{
        f"spec.tasks[].processGroup.elastic: must be false, {each.fixed_size}": (
            second(
                minReplicas=1,
                maxReplicas=2,
                processGroup={"framework": name.value, "elastic": True},
            ),
            "spec.tasks[1].processGroup.elastic",
        )
        for name, each in FRAMEWORKS.items()
        if each.fixed_size
    },
    "spec.tasks: a task chief needs a task ps": (tasks(cluster("chief")), "spec.tasks[1].name"),
    "spec.tasks: a task ps needs a task chief": (tasks(cluster("ps")), "spec.tasks[1].name"),
    "spec.tasks: elastic must be false without a task ps": (
        tasks(cluster("worker", elastic=True, minReplicas=1, maxReplicas=2)),
        "spec.tasks[1].processGroup.elastic",
    ),
    "spec.tasks[].name: must be one of chief": (tasks(cluster("second")), "spec.tasks[1].name"),
    "spec.tasks[].replicas: must be 1, a cluster of tensorflow": (
        tasks(cluster("evaluator", replicas=2)),
        "spec.tasks[1].replicas",
    ),
    "spec.tasks[].replicas: must be at most 256, a variable of tensorflow": (
        tasks(cluster("worker", replicas=257)),
        "spec.tasks[1].replicas",
    ),
    "spec.tasks[].replicas: must be at most 256, a variable of paddle": (
        second(replicas=257, processGroup={"framework": "paddle"}),
        "spec.tasks[1].replicas",
    ),
    "spec.tasks[].replicas: must be at most 256, a variable of mpi": (
        second(replicas=257, processGroup={"framework": "mpi"}),
        "spec.tasks[1].replicas",
    ),
    "spec.tasks[].podsPerReplica: must be 1, the tasks of a job": (
        tasks(cluster("worker", podsPerReplica=2)),
        "spec.tasks[1].podsPerReplica",
    ),
    "spec.tasks[].vacant: must be empty": (
        tasks(
            cluster("worker", elastic=True, minReplicas=1, maxReplicas=2, vacant=[0]),
            cluster("chief"),
            cluster("ps"),
        ),
        "spec.tasks[1].vacant",
    ),
    "spec.tasks[].processGroup.elastic: an elastic group needs": (
        second(processGroup={**TORCH, "elastic": True}),
        "spec.tasks[1].processGroup.elastic",
    ),
    "spec.tasks[].processGroup.elastic: must be false with podsPerReplica": (
        second(
            podsPerReplica=2,
            minReplicas=1,
            maxReplicas=2,
            processGroup={**TORCH, "elastic": True},
        ),
        "spec.tasks[1].processGroup.elastic",
    ),
    "spec.tasks[].processGroup.lastCallSeconds: ": (
        second(processGroup={**TORCH, "lastCallSeconds": 61, "deadlineSeconds": 60}),
        "spec.tasks[1].processGroup.lastCallSeconds",
    ),
    "spec.checkpoint: exactly one": (
        tasks(volumes=[{"name": "data"}], checkpoint={"volume": "data", **CLAIM}),
        "spec.checkpoint",
    ),
    "spec.checkpoint.persistentVolumeClaim: ": (
        tasks(checkpoint={"persistentVolumeClaim": "-a"}),
        "spec.checkpoint.persistentVolumeClaim",
    ),
    "spec.checkpoint.path: ": (
        tasks(checkpoint={**CLAIM, "path": "/a/../b"}),
        "spec.checkpoint.path",
    ),
    "spec.artifacts[]: exactly one": (
        tasks(artifacts=[{"name": "a", "path": "/a"}]),
        "spec.artifacts[0]",
    ),
    "spec.artifacts[].persistentVolumeClaim: ": (
        tasks(artifacts=[{"name": "a", "path": "/a", "persistentVolumeClaim": "-a"}]),
        "spec.artifacts[0].persistentVolumeClaim",
    ),
    "spec.artifacts[].path: ": (
        tasks(artifacts=[{"name": "a", "path": "/a/../b", **CLAIM}]),
        "spec.artifacts[0].path",
    ),
    "spec.code.configMap: ": (tasks(code={**CODE, "configMap": "-a"}), "spec.code.configMap"),
    "spec.code.persistentVolumeClaim: ": (
        tasks(code={**CODE, "persistentVolumeClaim": "A"}),
        "spec.code.persistentVolumeClaim",
    ),
    "spec.code.parts: ": (
        tasks(code={**CODE, "parts": 2, "persistentVolumeClaim": "shared"}),
        "spec.code.parts",
    ),
    "spec.code.sha256: ": (tasks(code={**CODE, "sha256": "a"}), "spec.code.sha256"),
    "spec.code.path: must": (tasks(code={**CODE, "path": "/a/../b"}), "spec.code.path"),
    "spec.code.requirements: ": (
        tasks(code={**CODE, "requirements": "/a"}),
        "spec.code.requirements",
    ),
    "spec.failurePolicy.rules[]: growMemory": (
        failing(tasks=["first"], action="FailJob", avoidNode=True),
        "spec.failurePolicy.rules[0]",
    ),
    "spec.failurePolicy.rules[].onExitCodes: ": (
        failing(onExitCodes={"operator": "In", "values": [0]}, action="FailJob"),
        "spec.failurePolicy.rules[0].onExitCodes",
    ),
}


@pytest.fixture(scope="module", params=["policy", "webhook"])
def judged(
    request: pytest.FixtureRequest,
    api_server: ApiServer,
    kube_config: KubeConfig,
    crd: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Object], str]]:
    """Creates a job with a spec; returns the message that refuses it, empty if it was made."""
    assert crd
    with (
        fresh_namespace(kube_config) as namespace,
        SyncKubeClient(config=kube_config, timeout=60) as kube,
        ExitStack() as judges,
    ):
        if request.param == "policy":
            judges.enter_context(policing(kube_config, namespace))
        else:
            folder = tmp_path_factory.mktemp("webhook")
            webhook = judges.enter_context(webhook_process(folder, api_server.host_address))
            judges.enter_context(admitting(webhook, kube_config, namespace))

        def refusal(spec: Object) -> str:
            metadata = {"generateName": "judged-"}
            body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
            try:
                kube.create(DIJOBS, body, namespace)
            except Invalid as error:
                return error.message
            return ""

        yield refusal


def test_every_rule_about_values_is_tried() -> None:
    messages = [each["message"] for each in validations()]
    about_values = [m for each, m in zip(validations(), messages, strict=True) if _of_value(each)]
    for message in about_values:
        assert [begin for begin in BROKEN if message.startswith(begin)], message
    for begin in BROKEN:
        assert sum(message.startswith(begin) for message in about_values) == 1, begin


def _of_value(validation: Object) -> bool:
    return not validation["expression"].startswith("oldObject == null || ")


@pytest.mark.proves(
    "dijob.md#without-the-webhook/fields-that-do-not-go-together-each-of",
    "dijob.md#without-the-webhook/more-than-4-096-pods-or-256-kib-of-spec",
)
@pytest.mark.parametrize("rule", BROKEN)
def test_a_job_that_breaks_a_rule_is_refused(
    judged: Callable[[Object], str], request: pytest.FixtureRequest, rule: str
) -> None:
    spec, path = BROKEN[rule]
    message = judged(spec)
    if request.node.callspec.params["judged"] == "policy":
        found, _, why = rule.partition(": ")
        for part in (found.replace("spec.tasks[]", "spec.tasks[1]").replace("[]", "[0]"), why):
            assert part in message
        assert ("spec.tasks[]" in rule) == ('(task "' in message)
    else:
        assert path in message


@pytest.mark.parametrize(("codes", "is_refused"), [("0-3", True), ("1-127", False)])
def test_exit_codes_may_be_a_range_without_zero(
    judged: Callable[[Object], str], codes: str, is_refused: bool
) -> None:
    rule = {"onExitCodes": {"operator": "In", "values": [codes, 200]}, "action": "FailJob"}
    message = judged(failing(**rule))
    assert ("spec.failurePolicy.rules[0].onExitCodes" in message) is is_refused
    assert bool(message) is is_refused


def test_a_job_past_a_bound_may_be_scaled_within_it_and_shrink(
    kube_config: KubeConfig, namespace: str, crd: str
) -> None:
    heavy = template({"name": "A", "value": "x" * MAX_SPEC_BYTES})
    spec = tasks(task("second", maxReplicas=100_000, template=heavy))
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": crd[:6]}, "spec": spec}
    with SyncKubeClient(config=kube_config, timeout=60) as kube:
        name = kube.create(DIJOBS, body, namespace)["metadata"]["name"]

        def change(field: str, value: object) -> str:
            patch = [{"op": "add", "path": f"/spec/tasks/1/{field}", "value": value}]
            try:
                kube.patch(DIJOBS, name, patch, namespace, content_type=JSON_PATCH)
            except Invalid as error:
                return error.message
            return ""

        with policing(kube_config, namespace):
            assert f"a job may have {MAX_PODS} pods" in change("maxReplicas", 100_001)
            assert change("replicas", 5) == ""
            assert change("maxReplicas", 50_000) == ""
            assert f"a job may have {MAX_PODS} pods" in change("maxReplicas", 60_000)
            assert change("minReplicas", 1) == ""
