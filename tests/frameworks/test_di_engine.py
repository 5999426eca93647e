"""The examples of DI-engine learn, and its collectors come and go while its learner learns."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from examples.demo.manifests import EXAMPLES, templates
from tests.e2e.examples import load_image, wait_for_end, with_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import pods_of, wait_for_pods
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.waiting import TRAINING_SECONDS, wait_until

EXAMPLE = "di-engine-elastic"
LEARNER, EVALUATOR = f"{EXAMPLE}-learner-0", f"{EXAMPLE}-evaluator-0"
COLLECTORS = tuple(f"{EXAMPLE}-collector-{index}" for index in range(2))
PODS = (LEARNER, EVALUATOR, *COLLECTORS)
RETURN = re.compile(r"(?:Episode Return\(|current episode_return: )([\d.]+)")
PATIENT = {"timeoutSeconds": 1500, "firstTimeoutSeconds": 1500}
"""A busy machine that learns slowly must not be taken for a job that hangs."""
HURRIED = {"timeoutSeconds": 20, "firstTimeoutSeconds": 20}
SOLVED, NEVER = 195, 1000
"""Mean returns: at the first DI-engine ends, the second is beyond the longest episode."""


def job_of(cluster: Cluster | CurrentCluster, example: str, namespace: str) -> dict[str, Any]:
    """An example's job with the image of this machine."""
    found = yaml.safe_load(EXAMPLES[example].read_text())
    if "progressPolicy" in found["spec"]:
        found["spec"]["progressPolicy"] |= PATIENT
    return with_image(found, image=load_image(cluster, "di-engine"), namespace=namespace)


@pytest.mark.proves(
    "di-engine.md#processes-that-come-and-go",
    "di-engine.md#try-it/make-demo-example-di-engine-elastic",
)
def test_a_collector_leaves_alone_and_another_one_joins(
    kubectl: Kubectl, cluster: Cluster | CurrentCluster, namespace: str
) -> None:
    manifest = job_of(cluster, EXAMPLE, namespace)
    # As many as there are, whatever the learner asks for.
    manifest["spec"]["tasks"][-1] |= {"replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    for template in templates(manifest):
        (container,) = template["spec"]["containers"]
        container["env"] = [{"name": "STOP_VALUE", "value": str(NEVER)}]
    kubectl.apply(manifest)
    before = wait_for_pods(kubectl, EXAMPLE, *PODS, namespace=namespace)
    _wait_for_step(kubectl, namespace, past=0)

    *_, left = COLLECTORS
    kubectl("--namespace", namespace, "delete", "pod", left)
    after = wait_for_pods(kubectl, EXAMPLE, *PODS, namespace=namespace)
    assert {name for name in PODS if after[name].uid != before[name].uid} == {left}
    wait_until(
        lambda: "collect end" in kubectl.logs(left, namespace=namespace),
        what="the collector that joined to collect",
    )
    _wait_for_step(kubectl, namespace, past=_step(kubectl, namespace))
    assert kubectl.phase(EXAMPLE, namespace=namespace) == "Running"


KILL = """
import os
for process in filter(str.isdigit, os.listdir("/proc")):
    command = open(f"/proc/{process}/cmdline", "rb").read()
    if b"elastic.main" in command and int(process) != os.getpid():
        os.kill(int(process), 9)
"""


@pytest.mark.proves("di-engine.md#processes-that-come-and-go")
@pytest.mark.parametrize("has_rule", [True, False], ids=["by-the-rule", "by-the-progress"])
def test_all_begin_again_with_a_learner_that_is_killed(
    has_rule: bool, kubectl: Kubectl, cluster: Cluster | CurrentCluster, namespace: str
) -> None:
    manifest = job_of(cluster, EXAMPLE, namespace)
    spec = manifest["spec"]
    if not has_rule:
        spec["failurePolicy"]["rules"].pop()
    # As many as there are, whatever the learner asks for.
    spec["tasks"][-1]["maxReplicas"] = 1
    for template in templates(manifest):
        (container,) = template["spec"]["containers"]
        container["env"] = [{"name": "STOP_VALUE", "value": str(NEVER)}]
    # Else no process of the pod can kill the first one.
    spec["tasks"][0]["template"]["spec"]["shareProcessNamespace"] = True
    kubectl.apply(manifest)
    pods = PODS[:3]
    before = wait_for_pods(kubectl, EXAMPLE, *pods, namespace=namespace)
    _wait_for_step(kubectl, namespace, past=0)

    kubectl("--namespace", namespace, "exec", LEARNER, "--", "python", "-c", KILL)

    def have_begun_again() -> bool:
        found = pods_of(kubectl, EXAMPLE, namespace=namespace)
        return all(name in found and found[name].uid != before[name].uid for name in pods)

    if not has_rule:
        _set_progress_policy(kubectl, HURRIED, namespace)
    wait_until(have_begun_again, TRAINING_SECONDS, what="all to begin again")
    if not has_rule:
        _set_progress_policy(kubectl, PATIENT, namespace)
    wait_for_pods(kubectl, EXAMPLE, *pods, namespace=namespace)
    _wait_for_step(kubectl, namespace, past=_step(kubectl, namespace))


OWN_PARSER = """
import json, os
from ding.entry.cli_parsers.k8s_parser import K8SParser
for env in json.load(open("/env/env.json")):
    os.environ.update(env)
    found = K8SParser(topology="star", ports=22270).parse()
    print(env["NAME"], found["address"], found["attach_to"])
"""


def _environments(pods: int, before: int) -> list[dict[str, str]]:
    """The variables of some pods of a job that had `before` replicas first."""
    model = ClusterModel(job(task("learner"), task("collector", before - 1)))
    model.settle()
    if pods != before:
        model.run().settle()
        model.scale("collector", pods - 1).settle()
    names = ("x-learner-0", "x-collector-0", f"x-collector-{pods - 2}")
    return [
        {"NAME": name, **{key: model.env(name)[key] for key in ("DI_NODES", "DI_RANK")}}
        for name in names
    ]


@pytest.mark.proves("lifecycle.md#ranks-and-node-lists")
def test_its_own_parser_finds_the_peers_of_a_large_job(
    kubectl: Kubectl, cluster: Cluster | CurrentCluster, namespace: str
) -> None:
    image = load_image(cluster, "di-engine")
    said = [
        each
        for pods, before in ((150, 150), (1000, 1000), (150, 100))
        for each in _environments(pods, before)
    ]
    data = {"env.json": json.dumps(said)}
    metadata = {"name": "parser", "namespace": namespace}
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    container = {
        "name": "parser",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", OWN_PARSER],
        "volumeMounts": [{"name": "env", "mountPath": "/env"}],
    }
    volume = {"name": "env", "configMap": {"name": "parser"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def has_ended() -> bool:
        phase = kubectl.get("pod", "parser", namespace=namespace)["status"]["phase"]
        return phase in ("Succeeded", "Failed")

    wait_until(has_ended, what="the parser to end")
    found = [line.split(" ") for line in kubectl.logs("parser", namespace=namespace).splitlines()]
    lines = [line for line in found if line[0].startswith("x-")]
    domain = "di-x.rl.svc.cluster.local"
    head = f"tcp://x-learner-0.{domain}:22270"
    assert lines == [
        [one["NAME"], f"{one['NAME']}.{domain}", "" if one["DI_RANK"] == "0" else head]
        for one in said
    ]


@pytest.mark.parametrize(
    ("example", "evaluator"),
    [
        (EXAMPLE, EVALUATOR),
        pytest.param(
            *("di-engine", "di-engine-evaluator-0"),
            marks=pytest.mark.proves("di-engine.md#try-it/make-demo-example-di-engine"),
        ),
        pytest.param(
            *("di-engine-dist", "di-engine-dist-coordinator"),
            marks=pytest.mark.proves("di-engine.md#try-it/make-demo-example-di-engine-dist"),
        ),
    ],
)
def test_an_example_learns(
    example: str,
    evaluator: str,
    kubectl: Kubectl,
    cluster: Cluster | CurrentCluster,
    namespace: str,
) -> None:
    manifest = job_of(cluster, example, namespace)
    # The evaluator still runs when the learner has succeeded, and its log is to stay.
    manifest["spec"]["cleanPodPolicy"] = "None"
    kubectl.apply(manifest)
    wait_for_end(kubectl, example, namespace=namespace)
    log = kubectl.logs(evaluator, namespace=namespace)
    assert kubectl.phase(example, namespace=namespace) == "Succeeded", log
    assert float(RETURN.findall(log)[-1]) >= SOLVED


def _set_progress_policy(kubectl: Kubectl, times: dict[str, int], namespace: str) -> None:
    patch = json.dumps({"spec": {"progressPolicy": times}})
    kubectl("--namespace", namespace, "patch", "dijob", EXAMPLE, "--type=merge", "--patch", patch)


def _step(kubectl: Kubectl, namespace: str) -> float:
    found = kubectl.get("dijob", EXAMPLE, namespace=namespace)
    return float(found["status"]["profilings"]["step"])


def _wait_for_step(kubectl: Kubectl, namespace: str, *, past: float) -> None:
    wait_until(lambda: _step(kubectl, namespace) > past, TRAINING_SECONDS, what="another step")
