"""A process group of fixed size on a real node, and what befalls it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from di_api.names import LABEL_POD
from di_cluster.errors import CommandFailed
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.lifecycle.test_scaling import rest
from tests.e2e.pods import Pod, wait_for_pods
from tests.waiting import wait_until

JOB: Final = "whole"
SIZE: Final = 3
LOST: Final = f"{JOB}-learner-1"
EVENTS: Final = ("evict", "drain", "preempt", "delete", "force", "grow", "shrink", "kill")
"""What may befall a group; each leaves it running, of 3 members but for `grow`: 4, `shrink`: 2."""
_SLOT: Final = "example.org/member"
"""A resource that the node has for four members, so that a pod can ask for that of another."""
_KILL: Final = "open('/tmp/die', 'w').close()"

_LOOK: Final = """
import os, time
def look():
    if os.path.exists("/tmp/die"):
        os._exit(3)
    time.sleep(0.2)
"""
SOCKETS: Final = f"""{_LOOK}
import socket
size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
peers = []
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        for _ in range(size - 1):
            peer = server.accept()[0]
            assert int(peer.recv(8)) == size, "a member of another size"
            peers.append(peer)
else:
    while not peers:
        try:
            peers.append(socket.create_connection(address, timeout=10))
        except OSError:
            time.sleep(0.2)
    peers[0].sendall(f"{{size:8}}".encode())
print(f"met {{size}}", flush=True)
while True:
    for peer in peers:
        peer.settimeout(30)
        peer.sendall(b"x")
        assert peer.recv(1), "a member is gone"
    look()
"""
TORCH: Final = f"""{_LOOK}
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
size = dist.get_world_size()
print(f"met {{size}}", flush=True)
while True:
    one = torch.ones(1)
    dist.all_reduce(one)
    assert one.item() == size
    look()
"""
TORCHRUN: Final = ("torchrun", "/tmp/program.py")
"""Command that runs TORCH."""
JAX: Final = f"""{_LOOK}
import jax
from jax.experimental import multihost_utils
size, rank = (int(os.environ[f"JAX_{{name}}"]) for name in ("NUM_PROCESSES", "PROCESS_ID"))
jax.distributed.initialize(num_processes=size, process_id=rank)
assert jax.process_count() == size
first = True
while True:
    found = multihost_utils.process_allgather(jax.numpy.array([1.0]))
    assert float(found.sum()) == size
    if first:
        print(f"met {{size}}", flush=True)
    first = False
    look()
"""
MPI: Final = f"""{_LOOK}
from mpi4py import MPI
world = MPI.COMM_WORLD
# The output of all processes goes to mpirun; this one goes to the log of the process's own pod.
with open("/proc/1/fd/1", "w") as log:
    print(f"met {{world.size}}", file=log, flush=True)
while True:
    assert world.allreduce(1) == world.size
    look()
"""
MPIRUN: Final = ("mpirun",)
"""Launcher of MPI."""


class WholeGroup:
    """The group of a running job, which has to stay whole whatever befalls it."""

    def __init__(
        self,
        kubectl: Kubectl,
        namespace: str,
        *,
        image: str,
        program: str,
        framework: str = "torch",
        command: tuple[str, ...] = ("python3", "-u", "/tmp/program.py"),
        launcher: tuple[str, ...] = (),
    ) -> None:
        self._kubectl = kubectl
        self._namespace = namespace
        learner = task("learner", image=image, program="", replicas=SIZE)
        learner |= {"processGroup": {"framework": framework}}
        (container,) = learner["template"]["spec"]["containers"]
        run = f'printf %s "$PROGRAM" > /tmp/program.py; exec {" ".join(command)}'
        container["command"] = [*launcher, "sh", "-c", run]
        container["env"] = [{"name": "PROGRAM", "value": program}]
        container["resources"] = {"requests": {"cpu": "10m", _SLOT: "1"}, "limits": {_SLOT: "1"}}
        self._job = job(JOB, namespace=namespace, tasks=[learner], backoffLimit=99)
        self._image = image
        self._pods: dict[str, Pod] = {}

    def start(self) -> None:
        """Create the job, and wait until its group has met."""
        self._kubectl.apply(self._job)
        self._pods = self._wait(SIZE)

    def remove(self) -> None:
        """Delete the job with its pods. Each loss of a pod delays the next one, and a new job has
        lost none.
        """
        self._kubectl(
            *("--namespace", self._namespace, "delete", "dijob", JOB),
            *("--cascade=foreground", "--timeout=300s"),
        )

    def befall(self, event: str) -> None:
        """Let something happen to a member, and check that the group is replaced as a whole."""
        before = self._counts()
        size = {"grow": 4, "shrink": 2}.get(event, SIZE)
        {"grow": self._scale, "shrink": self._scale}.get(event, self._lose)(event, size)
        self._wait_for_change(before, event)
        after = self._wait(size)
        kept = [name for name, pod in after.items() if self._uid(name) == pod.uid]
        assert not kept, f"{event}: {kept} were not replaced"
        counted = (1, 0) if event == "kill" else (0, 1)
        assert self._counts() == tuple(map(sum, zip(before, counted, strict=True))), event
        self._pods = after
        if size != SIZE:
            before = self._counts()
            self._scale("back", SIZE)
            self._wait_for_change(before, "back")
            self._pods = self._wait(SIZE)

    def _uid(self, name: str) -> str | None:
        pod = self._pods.get(name)
        return pod.uid if pod is not None else None

    def _counts(self) -> tuple[int, ...]:
        status = self._kubectl.get("dijob", JOB, namespace=self._namespace)["status"]
        return status.get("restarts", 0), status.get("reschedules", 0)

    def _wait_for_change(self, before: tuple[int, ...], event: str) -> None:
        def changed() -> bool:
            assert self._counts() != before
            return True

        wait_until(changed, what=f"{event} is counted")

    def _wait(self, size: int) -> dict[str, Pod]:
        """Wait until all members have met, each with that size, in one world of these pods."""
        names = [f"{JOB}-learner-{index}" for index in range(size)]

        def met() -> dict[str, Pod]:
            pods = wait_for_pods(self._kubectl, JOB, *names, namespace=self._namespace)
            for name in names:
                said = self._kubectl.logs(name, namespace=self._namespace)
                assert f"met {size}" in said, (name, said)
            status = self._kubectl.get("dijob", JOB, namespace=self._namespace)["status"]
            group = status["groups"]["learner"]
            assert group["state"] == "Formed", group
            assert set(group["members"].values()) == {pod.uid for pod in pods.values()}
            assert status["phase"] == "Running", status
            return pods

        return wait_until(met, what=f"{size} members meet")

    def _scale(self, event: str, size: int) -> None:
        status, answer = rest(
            self._kubectl,
            self._namespace,
            "PUT",
            {"task": "learner", "replicas": size},
            pod=f"{JOB}-learner-0",
        )
        assert status == 200, answer
        assert "all its pods" in answer["warning"], (event, answer)

    def _lose(self, event: str, size: int) -> None:
        within = ("--namespace", self._namespace)
        match event:
            case "evict":
                metadata = {"name": LOST, "namespace": self._namespace}
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
                path = f"/api/v1/namespaces/{self._namespace}/pods/{LOST}/eviction"
                self._kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))
            case "delete":
                self._kubectl(*within, "delete", "pod", LOST, "--wait=false")
            case "force":
                self._kubectl(*within, "delete", "pod", LOST, "--grace-period=0", "--force")
            case "kill":
                # The end of the pod may take this command along.
                with suppress(CommandFailed):
                    self._kubectl(*within, "exec", LOST, "--", "python3", "-c", _KILL)
            case "drain":
                self._drain()
            case "preempt":
                self._preempt()
            case _:
                raise AssertionError(event)

    def _drain(self) -> None:
        pod = self._kubectl.get("pod", LOST, namespace=self._namespace)
        node = pod["spec"]["nodeName"]
        try:
            self._kubectl(
                *("drain", node, f"--pod-selector={LABEL_POD}={LOST}", "--force"),
                *("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"),
            )
        finally:
            self._kubectl("uncordon", node)

    def _preempt(self) -> None:
        """A pod of higher priority asks for what one member has, beside what is free."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "preemptor", "namespace": self._namespace},
            "spec": {
                "priorityClassName": self._namespace,
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "a",
                        "image": self._image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["python3", "-c", sleep(3600)],
                        "resources": {"limits": {_SLOT: "2"}, "requests": {"cpu": "10m"}},
                    }
                ],
            },
        }
        before = self._counts()
        self._kubectl.apply(pod)
        self._wait_for_change(before, "preempt")
        self._kubectl("--namespace", self._namespace, "delete", "pod", "preemptor")


@contextmanager
def members_only(kubectl: Kubectl, namespace: str) -> Iterator[None]:
    """Nodes with a resource for four members, and a priority above theirs."""
    (node,) = _nodes(kubectl)[:1]
    _advertise(kubectl, node, "4")
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": namespace},
        "value": 1000 + secrets.randbelow(1000),
    }
    kubectl.apply(priority)
    try:
        yield
    finally:
        kubectl("delete", "priorityclass", namespace)
        _advertise(kubectl, node, None)


def _nodes(kubectl: Kubectl) -> list[str]:
    """The nodes that run containers."""
    found = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    return [each["metadata"]["name"] for each in found if _is_ready(each)]


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _advertise(kubectl: Kubectl, node: str, amount: str | None) -> None:
    patch = {"status": {"capacity": {_SLOT: amount}, "allocatable": {_SLOT: amount}}}
    kubectl(
        *("patch", "node", node, "--subresource=status", "--type=merge"),
        *("--patch", json.dumps(patch)),
    )
