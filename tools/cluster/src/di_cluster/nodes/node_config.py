"""Configuration files of a node's programs: pure functions of paths and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from di_cluster.network import DOMAIN, Network, node_name

PAUSE_IMAGE = "localhost/pause:1"
_OF_DISKS: Final = (
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
)
"""Signals of eviction; 0 % is no threshold."""
POD_BRIDGE = "di-pods"
PROXY_HEALTH_PORT = 10256


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaths:
    """The files of one node, all below its folder."""

    folder: Path

    @property
    def store(self) -> Path:
        """containerd's images and snapshots; the one part that outlives a run."""
        return self.folder / "images"

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def cni(self) -> Path:
        return self.folder / "cni"

    @property
    def kubelet(self) -> Path:
        return self.folder / "kubelet"

    @property
    def resolv_conf(self) -> Path:
        return self.folder / "resolv.conf"

    def config(self, program: str) -> Path:
        return self.folder / f"{program}.config"


def containerd_config(paths: NodePaths, *, cni_binaries: Path) -> str:
    """containerd's configuration (TOML, version 2: read by containerd 1.4 and later)."""
    return f"""\
version = 2
root = "{paths.store}"
state = "{paths.folder}/containerd-state"
[grpc]
  address = "{paths.socket}"
[ttrpc]
  address = "{paths.socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE nobody may lower oom_score_adj, and runc gives up.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_binaries}"
    conf_dir = "{paths.cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def cni_config(paths: NodePaths, *, network: Network, index: int) -> dict[str, Any]:
    """Pods on a bridge, addresses from the node's /24, no masquerading: all is routed."""
    return {
        "cniVersion": "1.0.0",
        "name": node_name(index),
        "plugins": [
            {
                "type": "bridge",
                "bridge": POD_BRIDGE,
                "isGateway": True,
                "ipMasq": False,
                # A pod may reach itself through its Service.
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{paths.folder}/cni-addresses",
                    "ranges": [[{"subnet": str(network.pods_of(index))}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet_config(
    paths: NodePaths, *, network: Network, index: int, pki: Path, cgroup: str
) -> dict[str, Any]:
    """The kubelet's configuration.

    Args:
        paths: the node's files.
        network: the cluster's addresses.
        index: the node's number.
        pki: folder with the authority and the node's serving certificate.
        cgroup: the control group below which its pods live.
    """
    name = node_name(index)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(network.node_address(index)),
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/{name}-serving.crt",
        "tlsPrivateKeyFile": f"{pki}/{name}-serving.key",
        "containerRuntimeEndpoint": f"unix://{paths.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "maxPods": 250,
        "enforceNodeAllocatable": [],
        "clusterDNS": [str(network.dns_service)],
        "clusterDomain": DOMAIN,
        # The machine's own name servers cannot be reached from the box.
        "resolvConf": str(paths.resolv_conf),
        "podLogsDir": f"{paths.folder}/pod-logs",
        "volumePluginDir": f"{paths.folder}/volume-plugins",
        # Images were loaded by hand and cannot be pulled again: never collect them. A full disk
        # would have them collected too, the pause image first, and no pod would start any more.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", **dict.fromkeys(_OF_DISKS, "0%")},
        # Renewed every two seconds; goes with the controller manager's grace period of 10 s.
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "1m",
        "syncFrequency": "10s",
    }


def proxy_config(*, network: Network, index: int, kubeconfig: Path) -> dict[str, Any]:
    """kube-proxy's configuration."""
    address = str(network.node_address(index))
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": node_name(index),
        "bindAddress": address,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": str(network.pods),
        "nodePortAddresses": ["primary"],
        "oomScoreAdj": 0,
        "healthzBindAddress": f"{address}:{PROXY_HEALTH_PORT}",
        "metricsBindAddress": "127.0.0.1:10249",
        # Zeros: it would write these to the kernel, for the whole machine.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "0s", "localhostNodePorts": False},
    }
