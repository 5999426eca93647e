"""Services that were edited by hand are put right, and nothing else of them is touched."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, running, task

Object = dict[str, Any]
JUDGED = (task("learner"), task("judge", 2, service={"ports": [{"name": "http", "port": 80}]}))


def edit(cluster: ClusterModel, name: str, **spec: Any) -> None:
    service = cluster.objects["Service", name]
    service["spec"] |= spec
    service["metadata"]["resourceVersion"] += "1"


@pytest.mark.proves(
    "lifecycle.md#edited-by-hand/the-selector-the-ports-or",
    "events.md#of-its-life/servicerestored",
)
@pytest.mark.parametrize("name", ["di-x", "x-judge"])
@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"app": "mine"}},
        {"selector": {}},
        {"ports": [{"name": "di-port", "port": 1, "protocol": "TCP", "targetPort": 1}]},
        {"ports": []},
    ],
    ids=["selector", "no selector", "ports", "no ports"],
)
def test_an_edited_service_of_a_job_is_put_right(name: str, spec: Object) -> None:
    cluster = running(*JUDGED)
    before = copy.deepcopy(cluster.objects["Service", name]["spec"])
    edit(cluster, name, **spec, sessionAffinity="ClientIP")
    del cluster.writes[:]
    cluster.settle()
    assert cluster.writes == [f"patch Service {name}"]
    assert cluster.objects["Service", name]["spec"] == {**before, "sessionAffinity": "ClientIP"}
    (event,) = [each for each in cluster.events if each.reason == "ServiceRestored"]
    assert event.message == f"Service {name} was edited by hand, {next(iter(spec))} put right"


def test_a_label_added_to_a_selector_is_taken_out_again() -> None:
    cluster = running(task("learner"))
    found = cluster.objects["Service", "di-x"]
    before = dict(found["spec"]["selector"])
    edit(cluster, "di-x", selector={**before, "diengine/task-name": "other"})
    cluster.settle()
    assert found["spec"]["selector"] == before


def test_fields_that_the_api_server_adds_to_ports_are_no_edits() -> None:
    cluster = running(*JUDGED)
    (port,) = cluster.objects["Service", "x-judge"]["spec"]["ports"]
    edit(cluster, "x-judge", ports=[{**port, "nodePort": 30000}], clusterIPs=["10.0.0.1"])
    del cluster.writes[:]
    cluster.settle()
    assert cluster.writes == []


def test_hidden_addresses_of_starting_pods_are_published_again() -> None:
    cluster = running(task("learner"))
    edit(cluster, "di-x", publishNotReadyAddresses=False)
    cluster.settle()
    assert cluster.objects["Service", "di-x"]["spec"]["publishNotReadyAddresses"] is True


def test_a_service_of_another_owner_keeps_its_selector() -> None:
    cluster = running(task("learner"))
    edit(cluster, "di-x", selector={"app": "mine"})
    cluster.objects["Service", "di-x"]["metadata"]["ownerReferences"] = []
    cluster.settle()
    assert cluster.objects["Service", "di-x"]["spec"]["selector"] == {"app": "mine"}
