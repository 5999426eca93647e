"""Simulated nodes: kwok plays their kubelets, so a thousand of them cost no more than one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from di_cluster.apiserver import ApiRefused, ApiServer
from di_cluster.box import Box
from di_cluster.network import Network
from di_cluster.waiting import wait_until
from di_cluster.workfolder import WorkFolder

# kwok manages the nodes that have this annotation and no others.
NODE_ANNOTATION = "kwok.x-k8s.io/node"
# Pods of simulated nodes select this label and tolerate this taint; real pods are kept off.
NODE_LABEL = ("type", "kwok")
NODE_TAINT = {"key": NODE_ANNOTATION, "value": "fake", "effect": "NoSchedule"}

ANNOTATION_EXIT_CODE = "simulation.diengine/exit-code"
ANNOTATION_RUN_FOR = "simulation.diengine/run-for"
ANNOTATION_READY_AFTER = "simulation.diengine/ready-after"

STAGES = Path(__file__).with_name("stages.yaml")
MAX_SIMULATED = 5000
_WRITERS = 8


def simulated_name(index: int) -> str:
    return f"simulated-{index:04d}"


def node_body(
    index: int, *, gpus: int, cpus: int, memory: str = "512Gi", pods: int = 250
) -> dict[str, Any]:
    """The Node object of a simulated node."""
    name = simulated_name(index)
    resources = {"cpu": str(cpus), "memory": memory, "pods": str(pods)}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {NODE_ANNOTATION: "fake"},
            "labels": {
                NODE_LABEL[0]: NODE_LABEL[1],
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"taints": [NODE_TAINT]},
        "status": {"capacity": resources, "allocatable": resources},
    }


def is_ready(node: dict[str, Any]) -> bool:
    """Whether pods can be placed on it: Ready, and its start-up taints are gone."""
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    taints = node["spec"].get("taints", [])
    return conditions.get("Ready") == "True" and not any(
        taint["key"].startswith("node.kubernetes.io/") for taint in taints
    )


class SimulatedNodes:
    """Starts kwok and makes nodes for it."""

    def __init__(
        self,
        *,
        box: Box,
        network: Network,
        folder: WorkFolder,
        binary: Callable[[str], Path],
    ) -> None:
        self._box = box
        self._network = network
        self._folder = folder
        self._binary = binary
        self._api = ApiServer(folder.kubeconfig)

    def start(self) -> None:
        """Start kwok (again, if it has died)."""
        self._box.start(
            "kwok",
            [
                self._binary("kwok"),
                f"--kubeconfig={self._folder.kubeconfig}",
                f"--config={STAGES}",
                f"--manage-nodes-with-annotation-selector={NODE_ANNOTATION}=fake",
                f"--cidr={self._network.simulated_pods}",
                f"--node-ip={self._network.control_plane}",
                # As the real nodes: a grace period of 10 s needs a renewal every 2 s.
                "--node-lease-duration-seconds=8",
            ],
        )

    def add(self, count: int, *, gpus: int, cpus: int, seconds: float = 120) -> list[str]:
        """Add nodes after those that exist; waits until all are ready.

        Returns:
            The names of the new nodes.

        Raises:
            ClusterError: kwok ended, or they are not ready in time.
        """
        first = len(self._list())
        indexes = range(first, first + count)

        def create(index: int) -> None:
            self._api.create("/api/v1/nodes", node_body(index, gpus=gpus, cpus=cpus))

        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(create, indexes))
        names = {simulated_name(index) for index in indexes}

        def ready() -> bool:
            self._box.require_alive("kwok")
            found = {node["metadata"]["name"] for node in self._list() if is_ready(node)}
            return names <= found

        wait_until(
            ready,
            seconds=seconds,
            what=f"{count} simulated nodes to be ready",
            every=0.2,
            tolerate=(ApiRefused, OSError),
        )
        return sorted(names)

    def _list(self) -> list[dict[str, Any]]:
        selector = f"{NODE_LABEL[0]}%3D{NODE_LABEL[1]}"
        items: list[dict[str, Any]] = self._api.get(
            f"/api/v1/nodes?labelSelector={selector}&resourceVersion=0"
        )["items"]
        return items
