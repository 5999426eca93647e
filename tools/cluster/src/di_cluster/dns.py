"""Cluster DNS: CoreDNS as a process of the box, behind the Service `kube-dns`."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from di_cluster.apiserver import ApiServer
from di_cluster.box import Box
from di_cluster.network import DOMAIN, Network
from di_cluster.waiting import wait_until
from di_cluster.workfolder import WorkFolder, write_text

_READY_PORT = 8181
_USER = "system:coredns"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def corefile(*, network: Network, kubeconfig: Path, context: str) -> str:
    """CoreDNS's configuration.

    No `cache` plugin: a kept "no such name" would slow every pod that waits for a peer's name.
    """
    return f"""\
.:53 {{
  bind {network.control_plane}
  errors
  ready {network.control_plane}:{_READY_PORT}
  kubernetes {DOMAIN} in-addr.arpa {{
    kubeconfig {kubeconfig} {context}
    ttl 1
  }}
}}
"""


def objects(network: Network) -> Iterator[tuple[str, dict[str, Any]]]:
    """Paths and bodies of what CoreDNS needs in the API: permissions, Service, endpoint."""
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    watch = ["list", "watch"]
    yield (
        f"{_RBAC}/clusterroles",
        {
            "metadata": {"name": _USER},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services", "pods", "namespaces"],
                    "verbs": watch,
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": watch,
                },
            ],
        },
    )
    yield (
        f"{_RBAC}/clusterrolebindings",
        {
            "metadata": {"name": _USER},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": _USER,
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": _USER}],
        },
    )
    yield (
        "/api/v1/namespaces/kube-system/services",
        {
            "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}},
            # No selector: the endpoint is a process, not a pod.
            "spec": {"clusterIP": str(network.dns_service), "ports": ports},
        },
    )
    yield (
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices",
        {
            "metadata": {
                "name": "kube-dns",
                "labels": {
                    "kubernetes.io/service-name": "kube-dns",
                    "endpointslice.kubernetes.io/managed-by": "di-cluster",
                },
            },
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [
                {"addresses": [str(network.control_plane)], "conditions": {"ready": True}}
            ],
        },
    )


class Dns:
    """Starts and checks CoreDNS."""

    def __init__(
        self, *, box: Box, network: Network, folder: WorkFolder, binary: Callable[[str], Path]
    ) -> None:
        self._box = box
        self._network = network
        self._folder = folder
        self._binary = binary

    def start(self, api: ApiServer) -> None:
        """Write its objects and start the process; the API server must be ready."""
        for path, body in objects(self._network):
            api.create(path, body)
        config = write_text(
            self._folder.config / "Corefile",
            corefile(
                network=self._network,
                kubeconfig=self._folder.kubeconfigs / "coredns",
                context=self._folder.name,
            ),
        )
        self._box.start("coredns", [self._binary("coredns"), "-conf", config])

    def wait(self, *, seconds: float = 30) -> None:
        """Wait until it knows all Services.

        Raises:
            ClusterError: it ended, or it is not ready in time.
        """
        address = str(self._network.control_plane)

        def ready() -> bool:
            self._box.require_alive("coredns")
            connection = http.client.HTTPConnection(address, _READY_PORT, timeout=2)
            try:
                connection.request("GET", "/ready")
                return connection.getresponse().status == 200
            finally:
                connection.close()

        wait_until(
            ready,
            seconds=seconds,
            what="DNS",
            tolerate=(OSError, http.client.HTTPException),
        )
