"""The node that a pod is meant for, as its spec says it."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.model.node import NodeInfo, read_constraints
from di_operator.builders.pinning import Binding, node_of, pin, placed

Object = dict[str, Any]


def required(*terms: Object) -> Object:
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}
            }
        }
    }


def expression(key: str, value: str, operator: str = "In") -> Object:
    return {"key": key, "operator": operator, "values": [value]}


def admitted(spec: Object, **labels: str) -> list[str]:
    """Which of the nodes a and b, both with these labels, admit the pod."""
    nodes = [
        NodeInfo(name=name, total={}, free={}, labels={**labels, "metadata.name": name})
        for name in "ab"
    ]
    return [node.name for node in nodes if read_constraints(spec).admit(node)]


def test_a_pinned_pod_goes_to_its_node_alone() -> None:
    spec = placed({}, "a", Binding.SCHEDULER)
    assert (admitted(spec), node_of(spec)) == (["a"], "a")
    assert (node_of(pin_spec := {"affinity": pin("a")}), pin_spec) == ("a", spec)


def test_every_alternative_of_the_template_is_pinned() -> None:
    template = required(
        {"matchExpressions": [expression("zone", "x")]},
        {"matchExpressions": [expression("zone", "y")], "matchFields": []},
    )
    spec = placed(template, "a", Binding.SCHEDULER)
    assert [admitted(spec, zone=zone) for zone in "xyz"] == [["a"], ["a"], []]
    assert node_of(spec) == "a"


def test_an_alternative_that_matches_no_node_does_not_come_to_match_one() -> None:
    template = required({}, {"matchExpressions": [expression("zone", "x")], "matchFields": None})
    spec = placed(template, "a", Binding.SCHEDULER)
    assert [admitted(spec, zone=zone) for zone in "xz"] == [["a"], []]
    assert node_of(spec) == "a"
    assert admitted(placed(required({}), "a", Binding.SCHEDULER)) == []


def test_a_template_that_names_another_node_goes_nowhere() -> None:
    template = required({"matchFields": [expression("metadata.name", "b")]})
    assert admitted(placed(template, "a", Binding.SCHEDULER)) == []


def test_the_rest_of_the_templates_affinity_stays() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [expression("zone", "x")]}}]
    template: Object = {
        "schedulerName": "other",
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {"x": 1},
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        },
    }
    before = repr(template)
    spec = placed(template, "a", Binding.SCHEDULER)
    assert {**spec, "affinity": None} == {**template, "affinity": None}
    assert spec["affinity"]["podAntiAffinity"] == {"x": 1}
    of_nodes = spec["affinity"]["nodeAffinity"]
    assert of_nodes["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert repr(template) == before


@pytest.mark.parametrize("binding", Binding)
def test_the_node_of_the_template_is_not_the_one_of_the_pod(binding: Binding) -> None:
    spec = placed({"nodeName": "b"}, "a", binding)
    assert node_of(spec) == "a"
    assert ("nodeName" in spec) is (binding is Binding.DIRECT)


@pytest.mark.parametrize(
    ("spec", "node"),
    [
        ({}, ""),
        ({"nodeName": "a"}, "a"),
        ({"nodeName": "b", "affinity": pin("a")}, "b"),
        ({"affinity": None}, ""),
        ({"affinity": {"nodeAffinity": {}}}, ""),
        (required({"matchExpressions": [expression("kubernetes.io/hostname", "a")]}), ""),
        (required({"matchFields": [expression("metadata.name", "a", "NotIn")]}), ""),
        (
            required(
                {"matchFields": [expression("metadata.name", "a")]},
                {"matchFields": [expression("metadata.name", "b")]},
            ),
            "",
        ),
        (
            required(
                {"matchFields": [expression("metadata.name", "a")]},
                {"matchExpressions": [expression("zone", "x")]},
            ),
            "",
        ),
        (required({}), ""),
    ],
)
def test_a_pod_is_meant_for_a_node_if_there_is_no_other(spec: Object, node: str) -> None:
    assert node_of(spec) == node
