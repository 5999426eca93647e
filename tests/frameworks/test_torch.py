"""DDP through torchrun: trains, loses a member and goes on, and is scaled, all without new pods."""

from __future__ import annotations

import re
import sys
import time

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl
from tests.e2e.lifecycle.test_scaling import rest
from tests.e2e.pods import pods_of, wait_for_pods
from tests.waiting import TRAINING_SECONDS, wait_until

MASTER = "torch-ddp-learner-0"
BEGINS = re.compile(r"world (\d) begins at step (\d+) \(restart (\d+)\)")
SHOWS = re.compile(r"step (\d+) of \d+, loss ([\d.]+)")


def names(count: int) -> list[str]:
    return [f"torch-ddp-learner-{index}" for index in range(count)]


class Training:
    """The job, as its first pod tells of it: torchrun gives rank 0 to whom it likes."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        self._began = time.monotonic()

    def said(self) -> str:
        """What all pods have printed, one after the other."""
        pods = pods_of(self._kubectl, "torch-ddp", namespace=self._namespace)
        return "\n".join(self._kubectl.logs(pod, namespace=self._namespace) for pod in pods)

    def worlds(self) -> list[tuple[int, int]]:
        """Size and first step of each world, by the step."""
        found = BEGINS.findall(self.said())
        return sorted(((int(size), int(step)) for size, step, _ in found), key=lambda w: w[1])

    def wait_for_world(self, size: int, *, past: int) -> int:
        """Wait until so many go on from a step past that one; returns the step."""

        def begun() -> tuple[int]:
            found = [step for of, step in self.worlds() if of == size and step >= past]
            assert found, self.worlds()
            return (found[-1],)

        (step,) = wait_until(begun, TRAINING_SECONDS, what=f"a world of {size}")
        self.note(f"world of {size} begins at step {step}")
        return int(step)

    def wait_for_step(self, least: int) -> int:
        """Wait until a step past that one is shown; returns the last."""

        def shown() -> int:
            last = max((int(step) for step, _ in SHOWS.findall(self.said())), default=0)
            assert last >= least
            return last

        return wait_until(shown, TRAINING_SECONDS, what=f"step {least}")

    def note(self, text: str) -> None:
        """Tell whoever looks on."""
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", file=sys.stderr, flush=True)


@pytest.fixture
def training(cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str) -> Training:
    body = job_of("torch-ddp", image=load_image(cluster, "torch-ddp"), namespace=namespace)
    (container,) = body["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["args"] = ["--steps=1500"]
    kubectl.apply(body)
    return Training(kubectl, namespace)


@pytest.mark.proves(
    "process-groups.md#try-it/make-demo-example-torch-ddp",
    "process-groups.md#try-it/make-test-all-lane-frameworks",
)
def test_a_group_of_torch_outlives_its_members_and_grows_and_shrinks(
    training: Training, kubectl: Kubectl, namespace: str
) -> None:
    first = wait_for_pods(kubectl, "torch-ddp", *names(3), namespace=namespace)
    training.wait_for_world(3, past=0)
    seen = training.wait_for_step(100)

    training.note("a worker is killed")
    kubectl(
        *("--namespace", namespace, "delete", "pod", names(3)[2]),
        *("--grace-period=0", "--force"),
    )
    resumed = training.wait_for_world(3, past=seen - 10)
    after = wait_for_pods(kubectl, "torch-ddp", *names(3), namespace=namespace)
    assert all(after[name].uid == first[name].uid for name in names(2))
    assert after[names(3)[2]].uid != first[names(3)[2]].uid
    seen = training.wait_for_step(resumed + 50)

    for method, change, count in (("DELETE", 1, 2), ("POST", 2, 4), ("DELETE", 1, 3)):
        training.note(f"scaled to {count} over REST")
        body = {"task": "learner", "replicas": change}
        status, said = rest(kubectl, namespace, method, body, pod=MASTER)
        assert status == 200, said
        resumed = training.wait_for_world(count, past=seen - 10)
        now = wait_for_pods(kubectl, "torch-ddp", *names(count), namespace=namespace)
        assert all(now[name].uid == after[name].uid for name in now.keys() & after.keys())
        after = now
        seen = training.wait_for_step(resumed + 50)

    wait_for_end(kubectl, "torch-ddp", namespace=namespace)
    training.note("over")
    assert kubectl.phase("torch-ddp", namespace=namespace) == "Succeeded"
    losses = [float(loss) for _, loss in SHOWS.findall(training.said())]
    assert min(losses) < 0.01 * max(losses)
