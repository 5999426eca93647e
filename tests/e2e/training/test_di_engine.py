"""DI-engine as it is published is the judge of the interface for jobs with a coordinator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.release import Release
from tests.e2e.examples import load_image
from tests.e2e.jobs import template
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import run_in_pod
from tests.e2e.replicas import COORDINATOR, SERVE, Testbed, pod_of
from tests.waiting import wait_until

pytestmark = pytest.mark.extended

GPUS = 2
CONFIG = "aggregatorconfig/aggregator-config"

CALLS = """
import json, os, warnings
warnings.simplefilter("ignore")
from easydict import EasyDict
from ding.utils import get_operator_server_kwargs
from ding.worker.coordinator.operator_server import OperatorServer

server = OperatorServer(**get_operator_server_kwargs(EasyDict({{}})))
server.set_worker_type("coordinator")
answers = []

def note(answer):
    success, code, message, data = answer
    assert success and code == 0, answer
    answers.append([message, data])
    return data

{calls}
print(json.dumps(answers))
"""
"""Calls the client of DI-engine's coordinators, set up from the pod's environment as they do."""

EVERY_CALL = """
note(server.get_replicas())
made = note(server.post_replicas(
    {"collectors": {"replicas": 2, "cpus": 0.02}, "learners": {"gpus": "0", "replicas": 1}}
))
note(server.get_replicas())
lost = made["collectors"][0].split(":")[0].split(".")[0]
note(server.post_replicas_failed(collectors=[lost, lost], learners=[]))
note(server.get_replicas())
note(server.delete_replicas(n_collectors=1, n_learners=1))
note(server.get_replicas())
note(server.get_replicas(os.environ["KUBERNETES_POD_NAME"]))
"""


ANSWER_PINGS = """
import os, time
from ding.interaction import Slave

class Learner(Slave):
    def _process_task(self, task):
        return {}

for gpu in range(int(os.environ["LOCAL_WORLD_SIZE"])):
    Learner("0.0.0.0", int(os.environ["LEARNER_PORT"]) + gpu).start()
time.sleep(3600)
"""
"""What DI-engine's learners are to their aggregator: one slave for each GPU."""


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """DI-engine's image, on every node."""
    return load_image(cluster, "di-engine")


@pytest.fixture
def testbed(kubectl: Kubectl, namespace: str) -> Testbed:
    return Testbed(kubectl, namespace)


@pytest.fixture
def aggregators_image(kubectl: Kubectl, release: Release, image: str) -> Iterator[None]:
    """The AggregatorConfig that the chart brings, with the image we have, and quick to end."""

    def put(spec: Mapping[str, Any]) -> None:
        patch = [{"op": "replace", "path": "/spec/aggregator/template/spec", "value": spec}]
        kubectl(
            *("--namespace", release.namespace, "patch", CONFIG, "--type=json"),
            *("--patch", json.dumps(patch)),
        )

    found = kubectl.get(CONFIG, namespace=release.namespace)
    before = found["spec"]["aggregator"]["template"]["spec"]
    (container,) = before["containers"]
    ours = {**container, "image": image, "imagePullPolicy": "IfNotPresent"}
    put({**before, "containers": [ours], "terminationGracePeriodSeconds": 1})
    yield
    put(before)


@pytest.fixture
def gpus_of_the_node(kubectl: Kubectl, cluster: Cluster | CurrentCluster) -> Iterator[None]:
    """The real node says that it has GPUs, although it has none."""
    if isinstance(cluster, CurrentCluster):
        pytest.skip("nodes tell the truth except in a cluster of our own")
    name = kubectl("get", "nodes", "--selector=type!=kwok", "--output=name").split()[0]

    def say(amount: str | None) -> None:
        patch = json.dumps({"status": {"capacity": {"nvidia.com/gpu": amount}}})
        kubectl("patch", name, "--subresource=status", "--type=merge", "--patch", patch)

    say(str(GPUS))
    yield
    say(None)


@pytest.mark.proves(
    "di-engine.md#what-was-run-unchanged/operatorserver-get-replicas-as",
    "di-engine.md#what-was-run-unchanged/operatorserver-post-replicas-post",
    "di-engine.md#what-was-run-unchanged/get-operator-server-kwargs",
)
def test_every_call_of_the_coordinators_client_works(
    kubectl: Kubectl, testbed: Testbed, image: str, python_image: str
) -> None:
    served = template(image=python_image, program=SERVE)
    testbed.start(image, templates={"collector": served, "learner": served})
    answers = run_in_pod(
        kubectl,
        COORDINATOR,
        CALLS.format(calls=EVERY_CALL),
        namespace=testbed.namespace,
    )
    assert [message for message, _ in answers] == [
        "successfully get replicas",
        "successfully create replicas",
        "successfully get replicas",
        "successfully recreate replicas",
        "successfully get replicas",
        "successfully delete replicas",
        *["successfully get replicas"] * 2,
    ]
    none, made, both, anew, renewed, gone, left, named = (data for _, data in answers)
    assert none["collectors"] == none["learners"] == []
    assert made == both
    assert (len(made["collectors"]), len(made["learners"])) == (2, 1)
    (successor,) = anew["collectors"]
    assert sorted(renewed["collectors"]) == sorted([made["collectors"][1], successor])
    assert renewed["learners"] == gone["learners"] == made["learners"]
    (last,) = left["collectors"]
    assert {last, *gone["collectors"]} == set(renewed["collectors"])
    assert left["learners"] == []
    assert named == left
    testbed.wait_for(COORDINATOR, pod_of(last))


@pytest.mark.proves("di-engine.md#what-was-run-unchanged/learneraggregator-with-the-chart-s")
def test_the_aggregator_connects_to_every_gpu_of_its_learners(
    kubectl: Kubectl,
    testbed: Testbed,
    image: str,
    aggregators_image: None,
    gpus_of_the_node: None,
) -> None:
    learner = template(image=image, program=ANSWER_PINGS)
    testbed.start(image, templates={"learner": learner})
    made = testbed.ask("POST", learners={"replicas": 1, "gpus": GPUS})
    aggregator = pod_of(made["learners"][0])
    learners = testbed.ask("GET", aggregator=aggregator)["learners"]
    assert len(learners) == GPUS

    def connected() -> bool:
        said = kubectl.logs(aggregator, namespace=testbed.namespace)
        found = re.findall(r"Succeed to connect to learner\((\S+)\)", said)
        assert set(found) == set(learners), said[-2000:]
        return True

    wait_until(lambda: testbed.pods()[aggregator]["status"]["phase"] == "Running")
    wait_until(connected, what="the aggregator is connected")


@pytest.mark.proves("di-engine.md#what-was-run-unchanged/ding-mode-dist-add-restart-delete")
def test_its_commands_add_restart_and_delete_replicas(
    cluster: Cluster | CurrentCluster,
    kubectl: Kubectl,
    testbed: Testbed,
    image: str,
    python_image: str,
) -> None:
    testbed.start(image, templates={"collector": template(image=python_image, program=SERVE)})
    _put_kubeconfig(kubectl, testbed.namespace, cluster.kubeconfig)

    def ding(*arguments: str) -> str:
        return kubectl(
            *("--namespace", testbed.namespace, "exec", COORDINATOR, "--"),
            *("ding", "--mode", "dist", "--kubeconfig", "/tmp/kubeconfig"),
            # The command wants some configuration, and makes no use of it.
            *("--env", "cartpole", "--policy", "dqn"),
            *("--coordinator-name", COORDINATOR, "--namespace", testbed.namespace, *arguments),
            seconds=120,
        )

    said = ding("--add", "collector", "--replicas", "2", "--cpus", "1", "--memory", "48Mi")
    assert "collector add successfully" in said
    before = testbed.wait_for_collectors(lambda found: len(found) == 2)
    assert "collector restart successfully" in ding(
        *("--restart", "collector", "--restart-pod-name", pod_of(before[0]))
    )
    testbed.wait_for_collectors(lambda found: len(set(found) - set(before)) == 1)
    assert "collector delete successfully" in ding("--delete", "collector", "--replicas", "2")
    testbed.wait_for_collectors(lambda found: found == [])
    # Not a word about success when it is refused.
    said = ding("--add", "collector", "--replicas", "100000")
    assert "Failed to add collector" in said


def _put_kubeconfig(kubectl: Kubectl, namespace: str, kubeconfig: Path) -> None:
    """Write the administrator's kubeconfig into the coordinator, with the address for pods."""
    found = yaml.safe_load(kubeconfig.read_text())
    for entry in found["clusters"]:
        entry["cluster"]["server"] = "https://kubernetes.default.svc"
    kubectl(
        *("--namespace", namespace, "exec", "--stdin", COORDINATOR, "--"),
        *("sh", "-c", "cat > /tmp/kubeconfig"),
        stdin=json.dumps(found),
    )
