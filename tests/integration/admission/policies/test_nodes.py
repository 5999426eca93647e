"""What the operator may change of a node, where suspect nodes get a taint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from di_kube.config import KubeConfig
from di_kube.resources import NODES
from di_kube.sync import SyncKubeClient
from di_operator.cluster.suspect_taints import TAINT
from tests.integration.accounts import OPERATOR, Accounts
from tests.waiting import wait_until

NAME = "suspect"
OTHERS = {"key": "example.org/mine", "effect": "NoSchedule"}
OURS = {"key": TAINT, "effect": "NoSchedule"}


@pytest.fixture
def kube(kube_config: KubeConfig) -> Iterator[SyncKubeClient]:
    """A client beside a node, to which controllers add taints of their own."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}}
    with SyncKubeClient(config=kube_config) as client:
        client.create(NODES, {**body, "spec": {"taints": [OTHERS]}})
        yield client
        client.delete(NODES, NAME)


@pytest.mark.proves("security.md#what-an-account-writes/operator-with-operator")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec": {"taints": [OURS]}}, "only the taint diengine.opendilab.org/suspect"),
        ({"spec": {"unschedulable": True}}, "di-operator may change only the taint"),
        ({"metadata": {"labels": {"team": "other"}}}, "only the taints of a node"),
        ({"metadata": {"annotations": {"note": "other"}}}, "only the taints of a node"),
    ],
)
def test_the_operator_changes_only_its_taint_of_a_node(
    accounts: Accounts, kube: SyncKubeClient, change: dict[str, Any], why: str
) -> None:
    path = NODES.path(None, NAME)
    assert why in accounts.objection(OPERATOR, "PATCH", path, change)

    def is_allowed() -> bool:
        taints = kube.get(NODES, NAME)["spec"]["taints"]
        ours = {"spec": {"taints": [*taints, OURS]}}
        return accounts.objection(OPERATOR, "PATCH", path, ours) == ""

    wait_until(is_allowed, what="the taint to be allowed")
