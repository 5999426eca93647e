"""Pods of a task that find each other: before they begin, whenever one comes or goes, and when a
process of one fails."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from di_api.names import LABEL_JOB, NODE_CHECK
from di_cluster.errors import CommandFailed
from tests.e2e.examples import job_of
from tests.e2e.kubectl import Kubectl
from tests.e2e.lifecycle.test_scaling import rest
from tests.e2e.pods import run_in_pod, wait_for_phase, wait_for_pods
from tests.waiting import SLOW_SECONDS, wait_until

JOB = "group"
READ = """
import json, os
print(open(os.environ["DI_GROUP_FILE"]).read().strip())
"""


def worlds(kubectl: Kubectl, namespace: str, pod: str) -> list[dict[str, Any]]:
    """Those that a member has met in."""
    return [json.loads(line) for line in kubectl.logs(pod, namespace=namespace).splitlines()]


def wait_for_world(kubectl: Kubectl, namespace: str, *indexes: int, after: int = 0) -> int:
    """Wait until these have met in one world, past a generation; returns its generation."""
    names = [f"{JOB}-learner-{index}" for index in indexes]

    def met() -> int:
        last = {name: worlds(kubectl, namespace, name)[-1] for name in names}
        generations = {each["generation"] for each in last.values()}
        assert len(generations) == 1, last
        assert all(each["met"] == names for each in last.values()), last
        (generation,) = generations
        assert generation > after, last
        return int(generation)

    return wait_until(met, SLOW_SECONDS, what=f"a world of {', '.join(names)}")


def reports_of_checks(kubectl: Kubectl, job: str, namespace: str) -> list[dict[str, Any]]:
    """What the checks of a job's pods said, by rank."""
    pods = kubectl.items("pods", f"--selector={LABEL_JOB}={job}", namespace=namespace)
    by_name = {pod["metadata"]["name"]: pod["status"]["initContainerStatuses"] for pod in pods}
    said = []
    for name in sorted(by_name):
        (check,) = by_name[name]
        assert check["name"] == NODE_CHECK
        said.append(json.loads(check["state"]["terminated"]["message"]))
    return said


def test_pods_exchange_data_before_they_begin(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """On one node: two of the three see that they reach each other, and nobody is slow."""
    kubectl.apply(job_of("node-check", image=python_image, namespace=namespace))
    ended = wait_for_phase(kubectl, "node-check", "Succeeded", namespace=namespace)["status"]
    reports = reports_of_checks(kubectl, "node-check", namespace)
    assert [report.keys() for report in reports] == 3 * [{"seconds", "exchanges"}]
    assert all(report["seconds"] > 0 for report in reports)
    first, second, third = (report["exchanges"] for report in reports)
    assert [each["with"] for each in (*first, *second, *third)] == [1, 0]
    assert all(each["seconds"] > 0 for each in (*first, *second))
    assert not [each for each in ended["conditions"] if each["type"] == "NodeCheckFailed"]


@pytest.mark.proves("process-groups.md#try-it/examples-elastic-group")
def test_members_meet_anew_whenever_one_comes_or_goes_and_who_stays_keeps_its_pod(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(job_of("elastic-group", image=python_image, namespace=namespace))
    three = [f"{JOB}-learner-{index}" for index in range(3)]
    first = wait_for_pods(kubectl, JOB, *three[:2], namespace=namespace)
    generation = wait_for_world(kubectl, namespace, 0, 1)
    told = run_in_pod(kubectl, three[0], READ, namespace=namespace)
    # The kubelet brings the file of a world within a minute or so; here it is that it is there.
    assert set(told) == {"generation", "state", "worldSize", "masterAddress", "members"}

    status, _ = rest(kubectl, namespace, "POST", {"task": "learner", "replicas": 1}, pod=three[0])
    assert status == 200
    generation = wait_for_world(kubectl, namespace, 0, 1, 2, after=generation)

    kubectl("--namespace", namespace, "delete", "pod", three[1], "--wait=false")

    def replaced() -> bool:
        found = kubectl.get("pod", three[1], namespace=namespace)["metadata"]["uid"]
        assert found != first[three[1]].uid
        return True

    wait_until(replaced, what="another pod of the second member")
    after = wait_for_pods(kubectl, JOB, *three, namespace=namespace)
    assert after[three[0]].uid == first[three[0]].uid
    generation = wait_for_world(kubectl, namespace, 0, 1, 2, after=generation)

    status, _ = rest(kubectl, namespace, "DELETE", {"task": "learner", "replicas": 1}, pod=three[0])
    assert status == 200
    wait_for_world(kubectl, namespace, 0, 1, after=generation)
    left = wait_for_pods(kubectl, JOB, *three[:2], namespace=namespace)
    assert {name: left[name].uid for name in three[:2]} == {n: after[n].uid for n in three[:2]}
    found = kubectl.get("dijob", JOB, namespace=namespace)["status"]
    assert sorted(found["groups"]["learner"]["members"]) == ["0", "1"]
    assert found.get("restarts", 0) == 0


def test_a_process_that_fails_is_restarted_in_its_pod_and_all_begin_anew(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(job_of("process-group", image=python_image, namespace=namespace))
    names = [f"process-group-learner-{index}" for index in range(3)]
    before = wait_for_pods(kubectl, "process-group", *names, namespace=namespace)

    def begun(generation: int) -> bool:
        for rank, name in enumerate(names):
            said = kubectl.logs(name, namespace=namespace).splitlines()
            last = [line for line in said if line.startswith("generation")][-1:]
            assert last == [f"generation {generation}: rank {rank} of 3"], (name, said)
        return True

    wait_until(lambda: begun(1), what="the first world")
    # It may take whoever tells it along.
    with suppress(CommandFailed):
        kubectl("--namespace", namespace, "exec", names[1], "--", "sh", "-c", "kill -INT 1")
    wait_until(lambda: begun(2), what="the next world")

    found = wait_for_phase(kubectl, "process-group", "Running", namespace=namespace)["status"]
    assert found["restarts"] == 1
    assert {i: each["restarts"] for i, each in found["replicaFailures"]["learner"].items()} == {
        "1": 1
    }
    after = wait_for_pods(kubectl, "process-group", *names, namespace=namespace)
    assert {name: pod.uid for name, pod in after.items()} == {n: p.uid for n, p in before.items()}
    statuses = [
        kubectl.get("pod", name, namespace=namespace)["status"]["containerStatuses"]
        for name in names
    ]
    assert [[each["restartCount"] for each in status] for status in statuses] == [[0], [1], [0]]
