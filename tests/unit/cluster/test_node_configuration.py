"""The configuration of a node's programs."""

from __future__ import annotations

import tomllib
from pathlib import Path

from di_cluster.dns import corefile, objects
from di_cluster.network import Network
from di_cluster.nodes.node_config import (
    NodePaths,
    cni_config,
    containerd_config,
    kubelet_config,
    proxy_config,
)

PATHS = NodePaths(folder=Path("/srv/nodes/node-1"))
NETWORK = Network(4)


def test_containerd_keeps_everything_below_the_nodes_folder() -> None:
    config = tomllib.loads(containerd_config(PATHS, cni_binaries=Path("/usr/lib/cni")))
    assert config["root"] == "/srv/nodes/node-1/images"
    assert config["state"].startswith("/srv/nodes/node-1/")
    assert config["grpc"]["address"] == str(PATHS.socket)
    # Containerd does not lower OOM scores.
    assert config["plugins"]["io.containerd.grpc.v1.cri"]["restrict_oom_score_adj"] is True


def test_pods_get_addresses_of_their_nodes_range() -> None:
    bridge = cni_config(PATHS, network=NETWORK, index=1)["plugins"][0]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.244.17.0/24"}]]
    assert bridge["hairpinMode"] is True


def test_the_kubelet_knows_its_address_certificate_and_control_group() -> None:
    config = kubelet_config(
        PATHS, network=NETWORK, index=1, pki=Path("/pki"), cgroup="di-cluster-x/node-1"
    )
    assert config["address"] == "10.244.0.2"
    assert config["tlsCertFile"] == "/pki/node-1-serving.crt"
    assert config["cgroupRoot"] == "/di-cluster-x/node-1"
    assert config["clusterDNS"] == ["10.244.128.10"]
    assert config["authentication"]["anonymous"] == {"enabled": False}
    # It never collects images that were loaded by hand.
    assert config["imageGCHighThresholdPercent"] == 100
    assert {key for key, value in config["evictionHard"].items() if value != "0%"} == {
        "memory.available"
    }


def test_the_proxy_does_not_change_the_connection_table() -> None:
    config = proxy_config(network=NETWORK, index=1, kubeconfig=Path("/k"))
    assert (config["conntrack"]["maxPerCore"], config["conntrack"]["min"]) == (0, 0)


def test_dns_answers_on_the_control_planes_address_without_a_cache() -> None:
    text = corefile(network=NETWORK, kubeconfig=Path("/k"), context="x")
    assert "bind 10.244.0.1" in text
    assert "cache" not in text


def test_the_dns_service_has_a_fixed_address_and_no_selector() -> None:
    bodies = {path.rsplit("/", 1)[1]: body for path, body in objects(NETWORK)}
    assert bodies["services"]["spec"]["clusterIP"] == "10.244.128.10"
    assert "selector" not in bodies["services"]["spec"]
    names = [port["name"] for port in bodies["services"]["spec"]["ports"]]
    assert names == [port["name"] for port in bodies["endpointslices"]["ports"]]
