"""A real node: containerd, kubelet and kube-proxy in the box.

Node 0 lives in the box's own net namespace, with the control plane; each further one in a net
namespace of its own, joined to the box's bridge.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from di_cluster import init
from di_cluster.apiserver import ApiRefused, ApiServer
from di_cluster.box import Box
from di_cluster.errors import CommandFailed
from di_cluster.network import Network, node_name
from di_cluster.nodes.node_config import (
    PROXY_HEALTH_PORT,
    NodePaths,
    cni_config,
    containerd_config,
    kubelet_config,
    proxy_config,
)
from di_cluster.waiting import wait_until
from di_cluster.workfolder import WorkFolder, write_json, write_text

_IMAGE_SECONDS = 300


class Node:
    """One real node of a cluster."""

    def __init__(
        self,
        index: int,
        *,
        box: Box,
        network: Network,
        folder: WorkFolder,
        binary: Callable[[str], Path],
        cni_binaries: Path,
    ) -> None:
        self.index = index
        self.name = node_name(index)
        self._box = box
        self._network = network
        self._folder = folder
        self._binary = binary
        self._cni_binaries = cni_binaries
        self._paths = NodePaths(folder=folder.node(self.name))
        self._namespace = f"n{index}" if index else ""

    def start_runtime(self) -> None:
        """Give the node its network and start containerd; needs no API server."""
        paths = self._paths
        if self._namespace and not self._has_namespace():
            self._make_namespace()
        self._box.cgroups.create(self.name if self.index else "")
        write_text(
            paths.config("containerd"), containerd_config(paths, cni_binaries=self._cni_binaries)
        )
        write_json(
            paths.cni / "10-pods.conflist",
            cni_config(paths, network=self._network, index=self.index),
        )
        self._start("containerd", ["containerd", "--config", paths.config("containerd")])

    def wait_for_runtime(self, *, seconds: float = 30) -> None:
        """Wait until containerd answers.

        Raises:
            ClusterError: it ended, or it does not answer in time.
        """

        def answers() -> bool:
            self._box.require_alive(f"containerd-{self.index}")
            return "Server" in self._ctr("version")

        wait_until(
            answers,
            seconds=seconds,
            what=f"containerd of {self.name}",
            tolerate=(CommandFailed,),
        )

    def start(self) -> None:
        """Start kubelet and kube-proxy; containerd and the API server must be ready."""
        paths, kubeconfigs = self._paths, self._folder.kubeconfigs
        cgroup = self._folder.cgroup + (f"/{self.name}" if self.index else "")
        write_text(paths.resolv_conf, "")
        write_json(
            paths.config("kubelet"),
            kubelet_config(
                paths,
                network=self._network,
                index=self.index,
                pki=self._folder.pki,
                cgroup=cgroup,
            ),
        )
        write_json(
            paths.config("kube-proxy"),
            proxy_config(
                network=self._network, index=self.index, kubeconfig=kubeconfigs / "kube-proxy"
            ),
        )
        self._start(
            "kubelet",
            [
                self._binary("kubelet"),
                f"--kubeconfig={kubeconfigs / self.name}",
                f"--config={paths.config('kubelet')}",
                f"--root-dir={paths.kubelet}",
                f"--cert-dir={paths.kubelet}/pki",
                f"--hostname-override={self.name}",
                # Never a loopback address: the API server could not reach it.
                f"--node-ip={self._network.node_address(self.index)}",
            ],
        )
        self._start(
            "kube-proxy", [self._binary("kube-proxy"), f"--config={paths.config('kube-proxy')}"]
        )

    def wait_until_ready(self, api: ApiServer, *, seconds: float = 90) -> None:
        """Wait until the node takes pods and its Service rules are in place.

        Raises:
            ClusterError: a daemon ended, or it is not ready in time.
        """

        def ready() -> bool:
            for daemon in ("kubelet", "kube-proxy"):
                self._box.require_alive(f"{daemon}-{self.index}")
            node = api.get(f"/api/v1/nodes/{self.name}")
            conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
            return conditions.get("Ready") == "True" and self._proxy_is_healthy()

        wait_until(
            ready,
            seconds=seconds,
            what=f"{self.name} to be ready",
            tolerate=(ApiRefused, OSError, http.client.HTTPException),
        )

    def import_images(self, archive: Path, images: dict[str, str]) -> bool:
        """Put a docker-archive's images into the node's store.

        Args:
            archive: the tar file.
            images: each reference with its image id.

        Returns:
            Whether anything had to be done.
        """
        loaded = self._loaded()
        if all(loaded.get(reference) == image_id for reference, image_id in images.items()):
            return False
        self._ctr("images", "import", archive, seconds=_IMAGE_SECONDS)
        write_json(self._loaded_path, {**loaded, **images})
        return True

    @property
    def _loaded_path(self) -> Path:
        # In the store's folder: the list is true exactly as long as the store exists.
        return self._paths.store / "loaded.json"

    def _loaded(self) -> dict[str, str]:
        try:
            loaded: dict[str, str] = json.loads(self._loaded_path.read_text())
        except (OSError, ValueError):
            return {}
        return loaded

    def _ctr(self, *argv: str | Path, seconds: float = 20) -> str:
        return self._box.run(
            ["ctr", "-a", self._paths.socket, "-n", "k8s.io", *argv], seconds=seconds
        )

    def _start(self, program: str, argv: Sequence[str | Path]) -> None:
        self._box.start(f"{program}-{self.index}", argv, namespace=self._namespace)

    def _proxy_is_healthy(self) -> bool:
        address = str(self._network.node_address(self.index))
        connection = http.client.HTTPConnection(address, PROXY_HEALTH_PORT, timeout=2)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        finally:
            connection.close()

    def _has_namespace(self) -> bool:
        process = self._box.init
        return (
            process is not None
            and Path(f"/proc/{process.pid}/root/run/netns/{self._namespace}").exists()
        )

    def _make_namespace(self) -> None:
        """A net namespace with one interface on the box's bridge and routes to all pods."""
        box, net, namespace = self._box, self._network, self._namespace
        address, uplink = net.node_address(self.index), f"up-{namespace}"
        box.run(["ip", "netns", "add", namespace])
        box.run(
            [
                *("ip", "link", "add", uplink, "type", "veth"),
                *("peer", "name", "eth0", "netns", namespace),
            ]
        )
        box.run(["ip", "link", "set", uplink, "master", init.NODE_BRIDGE, "up"])
        for command in (
            "ip link set lo up",
            f"ip addr add {address}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add {net.services} dev eth0 src {address}",
            f"ip route add {net.pods_of(0)} via {net.control_plane}",
            "sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1",
        ):
            box.run(command.split(), namespace=namespace)
        box.run(["ip", "route", "add", str(net.pods_of(self.index)), "via", str(address)])
        for other in range(1, self.index):
            for target, via, where in (
                (net.pods_of(other), net.node_address(other), namespace),
                (net.pods_of(self.index), address, f"n{other}"),
            ):
                box.run(["ip", "route", "add", str(target), "via", str(via)], namespace=where)
