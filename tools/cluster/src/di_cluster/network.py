"""The addresses of a cluster: one /16 of 10.0.0.0/8 for each cluster number."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

MAX_CLUSTERS = 10
MAX_NODES = 10
DOMAIN = "cluster.local"
_FIRST_OCTET = 240


@dataclass(frozen=True, slots=True)
class Network:
    """Everything a cluster's number decides: addresses, ranges, the device name.

    All ranges of a cluster lie in one /16, so the host needs one route to reach its nodes, pods
    and Services, and two clusters never overlap.
    """

    number: int

    def __post_init__(self) -> None:
        if not 0 <= self.number < MAX_CLUSTERS:
            raise ValueError(f"cluster number {self.number} is not in 0..{MAX_CLUSTERS - 1}")

    @property
    def whole(self) -> IPv4Network:
        return IPv4Network(f"10.{_FIRST_OCTET + self.number}.0.0/16")

    @property
    def nodes(self) -> IPv4Network:
        return next(self.whole.subnets(new_prefix=24))

    @property
    def pods(self) -> IPv4Network:
        """Pods of the real nodes; node `i` has the i-th /24 of it."""
        return list(self.whole.subnets(new_prefix=20))[1]

    @property
    def simulated_pods(self) -> IPv4Network:
        """Pods of simulated nodes; the addresses exist in their status only."""
        return list(self.whole.subnets(new_prefix=18))[1]

    @property
    def services(self) -> IPv4Network:
        return list(self.whole.subnets(new_prefix=17))[1]

    def pods_of(self, index: int) -> IPv4Network:
        return list(self.pods.subnets(new_prefix=24))[index]

    def node_address(self, index: int) -> IPv4Address:
        """The address of node `index`; node 0 shares it with the control plane."""
        if not 0 <= index < MAX_NODES:
            raise ValueError(f"node {index} is not in 0..{MAX_NODES - 1}")
        return self.nodes[index + 1]

    @property
    def control_plane(self) -> IPv4Address:
        return self.node_address(0)

    @property
    def host(self) -> IPv4Address:
        """The machine itself, as seen from inside the cluster."""
        return self.nodes[254]

    @property
    def api_service(self) -> IPv4Address:
        """ClusterIP of the Service `kubernetes`; the API server takes the range's first."""
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        return self.services[10]

    @property
    def server_url(self) -> str:
        return f"https://{self.control_plane}:6443"

    @property
    def host_device(self) -> str:
        """The host's end of the veth pair (device names have at most 15 characters)."""
        return f"di-host{self.number}"


def node_name(index: int) -> str:
    return f"node-{index}"
