"""What pods use, measured by a real metrics-server: `di`, the page and autoscalers read it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from di_api.names import DI_CONTAINER
from di_cli.main import run
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.release import Release
from tests.autoscaler_page import manifests
from tests.e2e.examples import with_image
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.test_dashboard import asked
from tests.e2e.usage.metrics_server import metrics_server
from tests.waiting import SLOW_SECONDS, wait_until
from tools.documents import dashboards

pytestmark = [pytest.mark.extended, pytest.mark.usefixtures("measured")]

HELD_MIB, LIMIT_MIB = 64, 192
CORES: Final = 0.5
BURN = """
while True:
    pass
"""
HOLD_AND_BURN = f"""
held = b"x" * ({HELD_MIB} << 20)
{BURN}
"""
EVALUATE = f"""
import os, time

# One evaluator has all of the work: a second one halves the mean.
while not os.environ["HOSTNAME"].endswith("-evaluator-0"):
    time.sleep(3600)
{BURN}
"""


@pytest.fixture(scope="module")
def measured(
    cluster: Cluster | CurrentCluster,
    release: Release,
    kubectl: Kubectl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """A cluster that measures its pods."""
    if isinstance(cluster, CurrentCluster):
        pytest.skip("metrics-server is installed in a cluster of our own only")
    with metrics_server(cluster, kubectl, tmp_path_factory.mktemp("metrics-server")):
        yield


def _limited(body: dict[str, Any], **limits: str) -> dict[str, Any]:
    """A task whose pods have these limits."""
    (container,) = body["template"]["spec"]["containers"]
    container["resources"]["limits"] = limits
    return body


@pytest.mark.proves("dashboard.md#rights/what-pods-use", "cluster.md#metrics-server")
def test_top_and_the_page_show_the_use_of_pods_and_doctor_finds_no_fault(
    kubectl: Kubectl,
    *,
    namespace: str,
    python_image: str,
    said: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    learner = task("learner", image=python_image, program=HOLD_AND_BURN)
    learner = _limited(learner, cpu=f"{CORES * 1000:.0f}m", memory=f"{LIMIT_MIB}Mi")
    kubectl.apply(job("busy", namespace=namespace, tasks=[learner]))
    # Kubernetes' own `view` includes metrics.k8s.io, by a rule of metrics-server.
    kubectl("--namespace", namespace, "create", "serviceaccount", "reader")
    kubectl(
        *("--namespace", namespace, "create", "rolebinding", "reads", "--clusterrole=view"),
        f"--serviceaccount={namespace}:reader",
    )
    token = kubectl("--namespace", namespace, "create", "token", "reader").strip()

    def top() -> list[str]:
        _, row, *_ = said("top", "busy").splitlines()
        name, kind, *cells = row.split()
        assert (name, kind) == ("busy-learner-0", "learner")
        return cells

    def is_measured() -> bool:
        # Until then only requests and limits are there, or what the start of Python used.
        cells = top()
        return len(cells) == 6 and _mib(cells[3]) >= HELD_MIB

    # metrics-server needs two measurements, 15 seconds apart.
    wait_until(is_measured, SLOW_SECONDS, what="the use of a processor")
    cpu, requested_cpu, cpu_limit, memory, requested_memory, memory_limit = top()
    assert (requested_cpu, requested_memory) == ("0.01", "16Mi")
    assert (cpu_limit, memory_limit) == (f"{CORES:.2f}", f"{LIMIT_MIB}Mi")
    _assert_bounds(cpu, memory)
    _, row, *_ = said("top").splitlines()
    assert row.split()[:2] == ["busy", "1"]
    everywhere = [line.split()[:3] for line in said("top", "-A").splitlines()]
    assert [namespace, "busy", "1"] in everywhere

    with asked(kubectl, tmp_path) as page:

        def shown() -> Mapping[str, str]:
            text = page(token, f"/jobs/{namespace}/busy").text
            row = text.partition('<tr id="row-busy-learner-0">')[2].partition("</tr>")[0]
            return dict(re.findall(r'data-label="([^"]+)"[^>]*>([^<]*)<', row))

        wait_until(lambda: shown()["CPU used"], SLOW_SECONDS, what="the use in the page")
        found = shown()
        cpu, _, requested_cpu = found["CPU used"].partition(" / ")
        memory, _, requested_memory = found["Memory used"].partition(" / ")
        assert (requested_cpu, requested_memory) == ("0.01", "16Mi")
        _assert_bounds(cpu, memory)

    _assert_curves(kubectl, "busy-learner-0", namespace)
    capsys.readouterr()
    run(["doctor", "--namespace", namespace, "-o", "json"])
    report = json.loads(capsys.readouterr().out)
    assert "metrics" not in {each["topic"] for each in report["findings"]}


def _assert_curves(kubectl: Kubectl, pod: str, namespace: str) -> None:
    """The kubelet has what the dashboard of a job draws, under the labels that it asks for.

    It reads the path that metrics-server reads. cAdvisor's path has no names of containers here,
    because cAdvisor does not find this cluster's containerd.
    """
    node = kubectl.get("pod", pod, namespace=namespace)["spec"]["nodeName"]
    measured = kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/resource").splitlines()
    asked = {
        name
        for text, _ in dashboards.expressions()
        for name in re.findall(r"\bcontainer_\w+", text)
    }
    labels = (f'container="{DI_CONTAINER}"', f'namespace="{namespace}"', f'pod="{pod}"')
    for name in asked:
        (found,) = (
            line
            for line in measured
            if line.startswith(f"{name}{{") and all(each in line for each in labels)
        )
        assert float(found.rpartition("} ")[2].split()[0]) > 0
    assert len(asked) == 2


def _assert_bounds(cpu: str, memory: str) -> None:
    """Check what a program uses against what it does, and against its limits."""
    assert 0 < float(cpu) <= CORES * 1.2
    assert HELD_MIB <= _mib(memory) <= LIMIT_MIB


def _mib(memory: str) -> float:
    return float(memory.removesuffix("Mi"))


@pytest.mark.proves("teams-autoscalers.md#by-the-load-of-processors")
def test_an_autoscaler_adds_an_evaluator_by_measured_use(
    kubectl: Kubectl, *, namespace: str, python_image: str
) -> None:
    body = with_image(manifests("DIJob")["cartpole"], image=python_image, namespace=namespace)
    programs = {"evaluator": EVALUATE}
    for each in body["spec"]["tasks"]:
        (container,) = each["template"]["spec"]["containers"]
        program = programs.get(each["type"], "import time; time.sleep(3600)")
        container |= {"imagePullPolicy": "IfNotPresent", "command": ["python3", "-c", program]}
        each["template"]["spec"]["terminationGracePeriodSeconds"] = 1
        if each["type"] == "evaluator":
            # Of 100m: two evaluators use 65 % in the mean, so that a third one is not wanted.
            _limited(each, cpu="130m")
    kubectl.apply(body)
    scaler = manifests("HorizontalPodAutoscaler")["cartpole-evaluator"]
    scaler["metadata"]["namespace"] = namespace
    kubectl.apply(scaler)

    def scaled() -> bool:
        found = kubectl.get("dijobtask", "cartpole-evaluator", namespace=namespace)
        status = found["status"]
        return (found["spec"]["replicas"], status.get("readyReplicas")) == (2, 2)

    wait_until(scaled, SLOW_SECONDS, what="a second evaluator")
    spec = kubectl.get("dijob", "cartpole", namespace=namespace)["spec"]
    replicas = {each["type"]: each.get("replicas", 1) for each in spec["tasks"]}
    assert replicas == {"learner": 1, "collector": 2, "evaluator": 2}
    status = kubectl.get("hpa", "cartpole-evaluator", namespace=namespace)["status"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert (conditions["AbleToScale"], conditions["ScalingActive"]) == ("True", "True")
