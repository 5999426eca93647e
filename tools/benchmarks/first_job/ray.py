"""Ray on KubeRay: what `kubectl ray job submit` does, with kubectl and Ray's own client.

The plugin itself is no Go module that can be built here. It creates a RayJob, waits for its Ray
cluster with a request every two seconds, forwards a port to it, and calls `ray job submit`. Here
the requests are more frequent. The operator runs on this machine.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from tests.waiting import wait_until, wait_until_async
from tools.benchmarks import processes
from tools.benchmarks.account import Account
from tools.benchmarks.definitions import apply_definition
from tools.benchmarks.first_job.rounds import (
    NAMESPACE,
    PATIENCE,
    PROGRAM,
    Place,
    Round,
    timed,
)
from tools.prepare.environments import Environment

OPERATOR = "ray-operator"
CLIENT: Final = Environment(name="ray-client", packages=("ray[default]==2.60.0",))
_HERE = Path(__file__).resolve().parent
_PORT = re.compile(r"(127\.0\.0\.1:\d+) ->")


@asynccontextmanager
async def operator(
    cluster: Cluster, client: KubeClient, account: Account, logs: Path
) -> AsyncIterator[None]:
    """Run KubeRay's operator on this machine."""
    for path in cluster.manifests(OPERATOR):
        await apply_definition(client, path)
    command = [
        str(cluster.binary(OPERATOR)),
        "--enable-leader-election=false",
        "--metrics-addr=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
        # Names of Services are unknown on this machine.
        "--use-kubernetes-proxy",
    ]
    log = logs / "kuberay.log"
    environment = account.environment
    async with processes.running(account.command(command), log=log, environment=environment):

        async def works() -> bool:
            return b"Starting workers" in log.read_bytes()

        await wait_until_async(works, what="KubeRay's operator")
        yield


def measure(place: Place, edits: int) -> tuple[list[Round], list[Round]]:
    """Run a job, and another RayJob for each edit; then the same in the Ray cluster of the last
    one.
    """
    found: list[Round] = []
    for number in range(edits):
        with ExitStack() as stack, timed(number, found) as logs:
            logs.append(_submit(place, number, _new_cluster(place, number, stack), stack))
        place.delete("rayjob", f"train-{number}")
    with ExitStack() as stack:
        with timed(edits, found) as logs:
            address = _new_cluster(place, edits, stack)
            logs.append(_submit(place, edits, address, stack))
        again = [found[0]]
        for number in range(edits + 1, 2 * edits + 1):
            with timed(number, again) as logs:
                logs.append(_submit(place, number, address, stack))
    place.delete("rayjob", f"train-{edits}")
    return found, again


def _new_cluster(place: Place, number: int, stack: ExitStack) -> str:
    """Create a RayJob, and wait for its Ray cluster; return the address of a forwarded port."""
    job = yaml.safe_load((_HERE / "rayjob.yaml").read_text())
    job["metadata"] = {"name": f"train-{number}"}
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]
    head["template"]["spec"]["containers"][0]["image"] = place.image
    place.apply(job)

    def service() -> str:
        found = place.kubectl.get("rayjob", f"train-{number}", namespace=NAMESPACE)
        name = found["status"]["rayClusterName"]
        cluster = place.kubectl.get("raycluster", name, namespace=NAMESPACE)
        assert cluster["status"]["state"] == "ready"
        return str(cluster["status"]["head"]["serviceName"])

    name = wait_until(service, PATIENCE, what="the Ray cluster", every=0.3)
    kubectl = place.kubectl
    forward = _running(
        kubectl.program,
        *("--kubeconfig", kubectl.kubeconfig, "--namespace", NAMESPACE),
        *("port-forward", f"service/{name}", ":8265"),
        folder=place.folder,
        stack=stack,
    )
    return wait_until(
        lambda: f"http://{_PORT.findall(forward())[0]}", PATIENCE, what="the port", every=0.1
    )


def _submit(place: Place, number: int, address: str, stack: ExitStack) -> Callable[[], str]:
    """Start `ray job submit`; return what reads its output."""
    (place.folder / "train.py").write_text(PROGRAM.format(number=number))
    program = CLIENT.python().with_name("ray")
    words = (
        "job",
        "submit",
        "--address",
        address,
        "--working-dir",
        ".",
        "--",
        "python",
        "train.py",
    )
    return _running(program, *words, folder=place.folder, stack=stack)


def _running(*command: str | Path, folder: Path, stack: ExitStack) -> Callable[[], str]:
    """Start a command that ends with the stack; return what reads its output."""
    path = folder / f"output-{time.monotonic_ns()}"
    with path.open("wb") as output:
        child = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    stack.callback(child.wait)
    stack.callback(child.terminate)
    return path.read_text
