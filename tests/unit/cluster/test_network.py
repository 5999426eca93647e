"""The addresses of clusters side by side."""

from __future__ import annotations

from itertools import combinations

import pytest

from di_cluster.network import MAX_CLUSTERS, MAX_NODES, Network, node_name
from di_cluster.preflight import network_conflict, parse_networks

ADDRESSES = """\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 192.0.2.2/24 brd 192.0.2.255 scope global eth0\\       valid_lft forever
"""
ROUTES = """\
default via 192.0.2.1 dev eth0
192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2
blackhole 10.243.0.0/16
local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1
10.241.7.0/24 via 192.0.2.9 dev eth0
"""


@pytest.mark.proves(
    "cluster.md#how-it-works/everything",
    "cluster.md#how-it-works/services",
    "cluster.md#how-it-works/simulated-pods-in-their-status-only",
)
@pytest.mark.parametrize("number", range(MAX_CLUSTERS))
def test_a_clusters_ranges_are_in_its_block_and_do_not_overlap(number: int) -> None:
    network = Network(number)
    ranges = [network.nodes, network.pods, network.simulated_pods, network.services]
    assert all(each.subnet_of(network.whole) for each in ranges)
    assert not any(one.overlaps(other) for one, other in combinations(ranges, 2))
    assert network.host in network.nodes
    assert network.api_service in network.services
    assert network.dns_service in network.services


def test_no_two_clusters_share_an_address() -> None:
    blocks = [Network(number).whole for number in range(MAX_CLUSTERS)]
    assert not any(one.overlaps(other) for one, other in combinations(blocks, 2))


@pytest.mark.proves(
    "cluster.md#how-it-works/node-i",
    "cluster.md#how-it-works/pods-of-node-i",
    "cluster.md#how-it-works/control-plane-and-node-0",
)
def test_every_node_has_its_own_address_and_pod_range() -> None:
    network = Network(3)
    addresses = {network.node_address(index) for index in range(MAX_NODES)}
    pods = {network.pods_of(index) for index in range(MAX_NODES)}
    assert len(addresses) == len(pods) == MAX_NODES
    assert network.host not in addresses
    assert all(each.subnet_of(network.pods) for each in pods)
    assert network.control_plane == network.node_address(0)


def test_numbers_out_of_range_are_refused() -> None:
    for number in (-1, MAX_CLUSTERS):
        with pytest.raises(ValueError, match="is not in"):
            Network(number)
    with pytest.raises(ValueError, match="node 10"):
        Network(0).node_address(MAX_NODES)


def test_device_names_fit_the_kernel() -> None:
    assert all(len(Network(number).host_device) <= 15 for number in range(MAX_CLUSTERS))
    assert node_name(2) == "node-2"


@pytest.mark.parametrize(
    ("number", "conflict"),
    [(0, None), (1, "10.241.7.0/24 on eth0"), (3, "10.243.0.0/16 on blackhole")],
)
def test_an_address_or_route_of_the_machine_blocks_a_range(
    number: int, conflict: str | None
) -> None:
    used = parse_networks(addresses=ADDRESSES, routes=ROUTES)
    assert network_conflict(Network(number), used) == conflict


def test_default_routes_and_removed_interfaces_block_no_range() -> None:
    assert parse_networks(addresses="7: di-3@if2    \\\n", routes="") == {}
    assert parse_networks(addresses="", routes="default via 192.0.2.1 dev eth0\n") == {}
