"""What the operator makes for a job of each kind, to the letter.

A pod of a job keeps its meaning for programs that are older than this operator, so a change of
these files is a change of the contract: `pytest tests/golden --update` writes them, and the diff is
to be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.base_template import with_base
from tests.unit.lifecycle.cluster_model import SETTINGS, ClusterModel, job, task

Object = dict[str, Any]
MANIFESTS = Path(__file__).parent / "manifests"
SECURE = replace(
    SETTINGS,
    server_url="https://di-server.di-system.svc.cluster.local:8443",
    token_audience="di-server",
    server_ca="the authority\n",
    high_priority_class="di-high",
)
TEMPLATE: Object = {"spec": {"containers": [{"name": "di-container", "image": "train:1"}]}}
GPU: Object = {
    "spec": {
        "containers": [
            {
                "name": "di-container",
                "image": "train:1",
                "ports": [{"name": "di-port", "containerPort": 4000}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            }
        ]
    }
}
MANY = 101
"""One more than fits into the variables of a pod: the lists of nodes are files then."""


def tasks() -> ClusterModel:
    cluster = ClusterModel(
        job(task("learner", 2, template=GPU), task("collector", 2), task("evaluator"))
    )
    cluster.settings = SECURE
    return cluster


def tasks_of_one_type() -> ClusterModel:
    cluster = ClusterModel(
        job(task("learner"), task("replay", dependsOn=["learner"]), priority="high", volumes=[])
    )
    cluster.settings = replace(SETTINGS, high_priority_class="di-high")
    return cluster


def preemptible() -> ClusterModel:
    cluster = ClusterModel(
        job(task("learner", 2, template=GPU), task("collector"), preemptible=True)
    )
    cluster.place(learner="a b", collector="a")
    return cluster


def gang_of(scheduler: str, **scheduling: str) -> ClusterModel:
    waits = task("collector", 2, template=GPU, dependsOn=["learner"])
    gang = {"gangScheduler": scheduler, **scheduling}
    cluster = ClusterModel(
        job(task("learner", 2, template=GPU), waits, scheduling=gang, priority="high")
    )
    cluster.settings = SECURE
    return cluster


def gang_of_scheduler_plugins() -> ClusterModel:
    return gang_of("scheduler-plugins")


def gang_of_volcano() -> ClusterModel:
    return gang_of("volcano", queue="rl")


def gang_of_kubernetes() -> ClusterModel:
    return gang_of("kubernetes")


def process_groups() -> ClusterModel:
    own = {"name": "RANK", "value": "mine"}
    container = {"name": "di-container", "image": "train:1", "env": [own]}
    torch: Object = {"framework": "torch", "processesPerReplica": 1}
    return ClusterModel(
        job(
            task("learner", 2, processGroup=torch, template={"spec": {"containers": [container]}}),
            task("replay", 2, processGroup={**torch, "processesPerReplica": 4}),
            task("evaluator", processGroup={"framework": "jax"}),
            task(
                "collector", processGroup={**torch, "elastic": True}, minReplicas=1, maxReplicas=2
            ),
        )
    )


def process_group_of_xgboost() -> ClusterModel:
    return ClusterModel(job(task("learner", 2, processGroup={"framework": "xgboost"})))


def cluster_of_tensorflow() -> ClusterModel:
    fixed: Object = {"framework": "tensorflow"}
    bounds = {"minReplicas": 1, "maxReplicas": 3}
    return ClusterModel(
        job(
            task("chief", processGroup=fixed),
            task("worker", 2, processGroup={**fixed, "elastic": True}, **bounds),
            task("ps", processGroup=fixed),
            task("evaluator", processGroup=fixed),
        )
    )


def process_group_of_mpi() -> ClusterModel:
    group: Object = {"framework": "mpi", "processesPerReplica": 2}
    container: Object = {"name": "di-container", "image": "train:1", "command": ["mpirun", "train"]}
    template: Object = {"spec": {"containers": [container]}}
    return ClusterModel(job(task("learner", 2, template=template, processGroup=group)))


def process_groups_of_paddle() -> ClusterModel:
    group: Object = {"framework": "paddle"}
    launched: Object = {**group, "processesPerReplica": 4}
    return ClusterModel(
        job(task("learner", 2, processGroup=group), task("replay", 2, processGroup=launched))
    )


def checkpoints() -> ClusterModel:
    given: Object = {
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "initContainers": [{"name": "fetch", "image": "fetch:1"}],
            "containers": [{"name": "di-container", "image": "train:1"}],
        }
    }
    cluster = ClusterModel(
        job(
            task("learner"),
            task("collector", template=given),
            checkpoint={"persistentVolumeClaim": "models", "path": "/models", "graceSeconds": 90},
        )
    )
    cluster.job["status"] = {"profilings": {"checkpointStep": 1200}}
    return cluster


def artifacts() -> ClusterModel:
    results: Object = {"name": "results", "path": "/results", "persistentVolumeClaim": "kept"}
    of_learners: Object = {**results, "name": "videos", "path": "/videos", "tasks": ["learner"]}
    return ClusterModel(job(task("learner"), task("collector"), artifacts=[results, of_learners]))


def checkpoints_of_a_coordinator() -> ClusterModel:
    cluster = coordinated()
    volume = {"name": "models", "nfs": {"server": "files", "path": "/models"}}
    cluster.job["spec"] |= {"volumes": [volume], "checkpoint": {"volume": "models"}}
    learner = {"name": "x-learner-bbbbb", "role": "learner"}
    cluster.job["spec"]["coordinated"]["replicas"].append(learner)
    return cluster


def node_checks() -> ClusterModel:
    own: Object = {"image": "check:1", "command": ["check"], "action": "Notify"}
    cluster = ClusterModel(
        job(
            task("learner", 2, template=GPU, nodeCheck={"command": ["a"]}),
            task("replay", nodeCheck=own),
        )
    )
    until = {"learner": {"n4": "2026-01-01T13:00:00Z", "n7": "2026-01-01T13:00:00Z"}}
    cluster.job["status"] = {"avoidedNodes": until}
    return cluster


def own_code() -> ClusterModel:
    given: Object = {
        "spec": {
            "initContainers": [{"name": "fetch", "image": "fetch:1"}],
            "containers": [
                {
                    "name": "di-container",
                    "image": "python:3.13-slim",
                    "command": ["python3", "train.py"],
                    "env": [
                        {"name": "PYTHONPATH", "value": "/own"},
                        {"name": "PIP_INDEX_URL", "value": "https://index.example.org"},
                    ],
                },
                {"name": "sidecar", "image": "sidecar:1"},
            ],
        }
    }
    code: Object = {"configMap": "x-code-0000", "sha256": "0" * 64, "revision": "abc"}
    return ClusterModel(
        job(
            task("learner", template=given, nodeCheck={"command": ["check"]}),
            code={**code, "requirements": "requirements.txt"},
        )
    )


def task_services() -> ClusterModel:
    ports: list[Object] = [
        {"name": "http", "port": 80, "targetPort": "score"},
        {"name": "events", "port": 9000, "protocol": "UDP"},
    ]
    return ClusterModel(
        job(
            task("learner"),
            task("judge", service={"ports": ports}),
            task("rollout", service={"ports": ports[1:], "select": "Leaders"}),
        )
    )


def drains() -> ClusterModel:
    service: Object = {"ports": [{"name": "http", "port": 80}]}
    asked: Object = {"path": "/drain", "port": "http", "timeoutSeconds": 20}
    own: Object = {"spec": {**TEMPLATE["spec"], "terminationGracePeriodSeconds": 5}}
    groups: Object = {"podsPerReplica": 2, "service": {**service, "select": "Leaders"}}
    return ClusterModel(
        job(
            task("judge", service=service, drain=asked),
            task("rollout", **groups, drain={"command": ["drain", "--all"]}, template=own),
            task("collector", 2, vacant=[1]),
        )
    )


def ports() -> ClusterModel:
    on_host: Object = {"spec": {**TEMPLATE["spec"], "hostNetwork": True}}
    shared = {"name": "rdzv", "scope": "Job"}
    own = [{"name": "rpc", "scope": "Pod"}, {"name": "metrics", "scope": "Pod"}]
    return ClusterModel(
        job(
            task("learner", 2, ports=[shared, *own], template=on_host), task("judge", ports=own[:1])
        )
    )


def replicas_of_several_pods() -> ClusterModel:
    serving = {"name": "di-container", "args": ["--serve"], "env": [{"name": "A", "value": "2"}]}
    patch: Object = {
        "metadata": {"labels": {"serves": "yes"}},
        "spec": {
            "priorityClassName": None,
            "nodeSelector": {"disk": "ssd"},
            "containers": [serving, {"name": "proxy", "image": "proxy:1"}],
        },
    }
    own = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(DI_REPLICA_LEADER)"}]
    container = {"name": "di-container", "image": "serve:1", "env": own}
    template: Object = {"spec": {"priorityClassName": "low", "containers": [container]}}
    cluster = ClusterModel(
        job(
            task("learner", podsPerReplica=2, processGroup={"framework": "torch"}),
            task("rollout", 2, podsPerReplica=2, template=template, leaderTemplatePatch=patch),
        )
    )
    cluster.job["status"] = {"replicaAttempts": {"rollout": {"1": 3}}}
    return cluster


def base_template() -> ClusterModel:
    own = {"name": "di-container", "command": ["collect"], "env": [{"name": "A", "value": "1"}]}
    based = job(
        {"type": "learner", "name": "learner", "replicas": 1},
        task("collector", template={"spec": {"nodeSelector": None, "containers": [own]}}),
        template={"spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}},
    )
    return ClusterModel({**based, "spec": dict(with_base(based["spec"]))})


def elastic_tier() -> ClusterModel:
    container = {"name": "di-container", "image": "train:1"}
    template = {"spec": {"containers": [container], "priorityClassName": "steady"}}
    on_spot = {
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    tier = {"priorityClassName": "spot", "templatePatch": {"spec": on_spot}}
    bounds = {"minReplicas": 1, "maxReplicas": 4, "template": template}
    return ClusterModel(job(task("learner"), task("collector", 2, elastic=tier, **bounds)))


def many_pods() -> ClusterModel:
    return ClusterModel(job(task("learner"), task("collector", MANY - 1)))


def coordinated() -> ClusterModel:
    body = job()
    del body["spec"]["tasks"]
    roles = {role: {"template": TEMPLATE} for role in ("coordinator", "collector", "learner")}
    group = {"aggregator": "x-aggregator-bbbbb"}
    body["spec"]["coordinated"] = {
        **roles,
        "replicas": [
            {"name": "x-collector-bbbbb", "role": "collector", "resources": {"cpu": "2"}},
            {"name": "x-aggregator-bbbbb", "role": "aggregator"},
            {"name": "x-ddp-learner-bbbbb", "role": "ddp-learner", **group},
            {"name": "x-ddp-learner-ccccc", "role": "ddp-learner", **group},
        ],
    }
    cluster = ClusterModel(body)
    cluster.aggregator = TEMPLATE
    body["spec"]["priority"] = "high"
    cluster.settings = replace(SETTINGS, token_audience="di-server", high_priority_class="di-high")
    return cluster


def standby() -> ClusterModel:
    group = {"elastic": True, "lastCallSeconds": 5, "deadlineSeconds": 60}
    bounds = {"minReplicas": 1, "maxReplicas": 4, "standby": 1, "processGroup": group}
    service = {"ports": [{"name": "http", "port": 80}]}
    cluster = ClusterModel(job(task("learner", 2, service=service, **bounds), task("collector")))
    cluster.settings = SECURE
    cluster.settle()
    cluster.run()
    cluster.settle()
    cluster.fail("x-learner-1")
    return cluster


KINDS: dict[str, Callable[[], ClusterModel]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        *(
            tasks,
            tasks_of_one_type,
            preemptible,
            process_groups,
            checkpoints,
            artifacts,
            node_checks,
        ),
        *(
            process_group_of_xgboost,
            cluster_of_tensorflow,
            process_groups_of_paddle,
            own_code,
            process_group_of_mpi,
        ),
        *(task_services, drains, ports, replicas_of_several_pods, elastic_tier, standby),
        base_template,
        *(many_pods, coordinated, checkpoints_of_a_coordinator),
        *(gang_of_scheduler_plugins, gang_of_volcano, gang_of_kubernetes),
    )
}


def made(cluster: ClusterModel) -> str:
    """All objects as YAML; of many pods the first and the last."""
    cluster.settle()
    if "coordinated" in cluster.job["spec"]:
        cluster.run("x-coordinator")
        cluster.settle()
    objects = [copy for _, copy in sorted(cluster.objects.items())]
    pods = [each for each in objects if each["kind"] == "Pod"]
    left_out = {each["metadata"]["name"] for each in pods[1:-1]} if len(pods) >= MANY else set()
    for each in objects:
        # The API server's own.
        each.pop("status", None)
        for field in ("uid", "resourceVersion", "creationTimestamp"):
            each["metadata"].pop(field, None)
    shown = [each for each in objects if each["metadata"]["name"] not in left_out]
    return yaml.safe_dump_all(shown, sort_keys=True, width=120)


@pytest.mark.parametrize("kind", KINDS)
def test_the_objects_of_a_job_match_the_golden_files(
    kind: str, request: pytest.FixtureRequest
) -> None:
    file = MANIFESTS / f"{kind}.yaml"
    now = made(KINDS[kind]())
    if request.config.getoption("--update", default=False):
        file.write_text(now)
    assert now == file.read_text(), f"pytest tests/golden --update writes {file} anew"


def test_every_golden_file_has_a_job() -> None:
    assert {file.stem for file in MANIFESTS.iterdir()} == set(KINDS)


@pytest.mark.proves("sdk.md#the-variables-of-a-pod/*")
def test_the_documented_variables_are_those_that_pods_have() -> None:
    page = MANIFESTS.parents[2] / "docs/reference/sdk.md"
    section = page.read_text().partition("## The variables of a pod\n")[2].partition("\n## ")[0]
    documented = {
        re.sub("<[A-Z]+>", "[A-Z]+", name) for name in re.findall("`([A-Z_<>]+)`", section)
    }
    texts = [file.read_text() for file in MANIFESTS.iterdir()]
    present = {name for text in texts for name in re.findall(r"name: ([A-Z_]{4,})$", text, re.M)}
    # It takes the allocator's placement: tests/unit/builders has it.
    missing = {each for each in documented if not any(re.fullmatch(each, own) for own in present)}
    assert missing == {"DI_NODE_KIND"}
    of_pods = {
        name
        for name in present
        if name.startswith("DI_") and not re.search("NODE_CHECK|DI_CODE_", name)
    }
    undocumented = {own for own in of_pods if not any(re.fullmatch(e, own) for e in documented)}
    assert undocumented == {
        "DI_NODE_NAME"
    }  # Of init containers alone, as are DI_NODE_CHECK_WAIT and DI_CODE_*.
