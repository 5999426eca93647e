"""Jobs with a coordinator on a real node, as programs of the older versions see them."""

from __future__ import annotations

import re

import pytest

from di_api.coordinated import SUFFIX_ALPHABET, SUFFIX_LENGTH
from di_api.names import GROUP
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import tell_to_exit
from tests.e2e.replicas import COORDINATOR, Testbed, pod_of, ports, variables
from tests.waiting import wait_until

GPU = "nvidia.com/gpu"
"""As other tests' simulated nodes have: those with most company say what a usual node is."""


@pytest.fixture
def testbed(kubectl: Kubectl, namespace: str) -> Testbed:
    return Testbed(kubectl, namespace)


def is_name(pod: str, role: str) -> bool:
    return re.fullmatch(rf"x-{role}-[{SUFFIX_ALPHABET}]{{{SUFFIX_LENGTH}}}", pod) is not None


def test_a_coordinator_finds_every_replica_at_the_address_it_is_told(
    kubectl: Kubectl, testbed: Testbed, python_image: str
) -> None:
    # Programs take any further word of kubectl for an error.
    said = testbed.start(python_image, cleanPodPolicy="ALL", priorityClassName="", group="rl")
    assert said == "dijob.diengine.opendilab.org/x created\n"
    assert testbed.job()["spec"]["cleanPodPolicy"] == "All"
    assert testbed.ask("GET") == {
        "namespace": testbed.namespace,
        "coordinator": COORDINATOR,
        "collectors": [],
        "learners": [],
    }

    wanted = {"replicas": 2, "cpus": "0.2", "memory": "48Mi", "gpu": 1}
    made = testbed.ask("POST", collectors=wanted, learners={"replicas": 1, "gpus": "0"})
    # The replica of di-server that did not do it hears of it.
    wait_until(lambda: testbed.ask("GET") == made)
    # Both ports and both versions are the same server.
    wait_until(lambda: testbed.ask("GET", version="v1alpha2", port=8081) == made)
    addresses = [*made["collectors"], *made["learners"]]
    for role, port, found in (
        ("collector", 22270, made["collectors"]),
        ("learner", 22271, made["learners"]),
    ):
        for address in found:
            assert is_name(pod_of(address), role)
            assert address == f"{pod_of(address)}.{testbed.namespace}:{port}"
    names = [pod_of(address) for address in addresses]
    assert testbed.visit(addresses) == names
    testbed.wait_for(COORDINATOR, *names)

    pods, services = testbed.pods(), testbed.services()
    for name in (COORDINATOR, *names):
        role = name.removeprefix("x-").partition("-")[0]
        expected = {
            "group-name": "diengine.opendilab.org",
            "dijob-name": "x",
            "controller-name": "di-operator",
            "replica-type": role,
            "pod-name": name,
        }
        port = {"coordinator": 22273, "collector": 22270, "learner": 22271}[role]
        for owner in (pods[name], services[name]):
            assert expected.items() <= owner["metadata"]["labels"].items()
            assert ports(owner) == {"di-port": port}
        assert {
            "KUBERNETES_POD_NAMESPACE": testbed.namespace,
            "KUBERNETES_POD_NAME": name,
            "KUBERNETES_SERVER_URL": "http://di-server.di-system:8080",
            f"{role.upper()}_PORT": str(port),
        }.items() <= variables(pods[name]).items()
        restarts = "Never" if role == "coordinator" else "Always"
        assert pods[name]["spec"]["restartPolicy"] == restarts
    assert variables(pods[COORDINATOR])["KUBERNETES_COORDINATOR_URL"] == (
        f"{COORDINATOR}.{testbed.namespace}:22273"
    )
    amounts = {"cpu": "200m", "memory": "48Mi"}
    for name in names[:2]:
        assert pods[name]["spec"]["containers"][0]["resources"] == {
            "requests": amounts,
            "limits": amounts,
        }
    listed = kubectl("--namespace", testbed.namespace, "get", f"dijobs.v1alpha1.{GROUP}")
    assert re.search(r"NAME +PHASE +AGE\nx +Running +", listed)


@pytest.mark.extended  # tests/integration/operator/test_coordinated.py has it without a kubelet.
def test_replicas_come_and_go_as_the_coordinator_says_and_the_job_ends_with_it(
    kubectl: Kubectl, testbed: Testbed, python_image: str
) -> None:
    testbed.start(python_image)
    first, second = testbed.ask("POST", collectors={"replicas": 2})["collectors"]
    testbed.wait_for(COORDINATOR, pod_of(first), pod_of(second))

    answer = testbed.ask("POST", "/failed", collectors=[pod_of(first)] * 2, learners=[])
    (third,) = answer["collectors"]
    assert third not in (first, second)
    testbed.wait_for(COORDINATOR, pod_of(third), pod_of(second))
    assert testbed.visit([third]) == [pod_of(third)]

    # One that somebody takes away is made again, under the name that the coordinator knows.
    before = testbed.pods()[pod_of(second)]["metadata"]["uid"]
    kubectl("--namespace", testbed.namespace, "delete", "pod", pod_of(second))
    wait_until(
        lambda: (
            testbed.pods().get(pod_of(second), {"metadata": {"uid": before}})["metadata"]["uid"]
            != before
        ),
        what="another pod of that name",
    )
    assert testbed.visit([second]) == [pod_of(second)]
    assert testbed.job()["status"]["phase"] == "Running"

    assert len(testbed.ask("DELETE", collectors={"replicas": 1})["collectors"]) == 1
    (left,) = testbed.wait_for_collectors(lambda found: len(found) == 1)
    testbed.wait_for(COORDINATOR, pod_of(left))

    tell_to_exit(kubectl, COORDINATOR, 0, namespace=testbed.namespace)
    testbed.wait_for_phase("Succeeded")
    wait_until(lambda: not testbed.services())
    wait_until(lambda: set(testbed.pods()) == {COORDINATOR})
    counts = testbed.job()["status"]["replicaStatus"]
    assert counts["Collector"] == {"active": 0, "succeeded": 1, "failed": 0}
    assert "last words" in kubectl.logs(COORDINATOR, namespace=testbed.namespace)
