"""Node selectors and node affinity are read as the scheduler reads them."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.explain.places import any_of_its_kind
from tests.unit.api.explain.cluster import node

NODE = node("gpu-1", labels={"pool": "gpu", "memory": "512"})


def _affinity(*terms: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": required}}


def _labels(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"pool": "gpu"}}, True),
        ({"nodeSelector": {"pool": "gpu", "no": "such"}}, False),
        (_affinity(_labels("pool", "In", "cpu", "gpu")), True),
        (_affinity(_labels("pool", "In", "cpu")), False),
        (_affinity(_labels("pool", "In", "cpu"), _labels("pool", "Exists")), True),
        (_affinity(_labels("pool", "NotIn", "gpu")), False),
        (_affinity(_labels("zone", "NotIn", "a")), True),
        (_affinity(_labels("zone", "Exists")), False),
        (_affinity(_labels("zone", "DoesNotExist")), True),
        (_affinity(_labels("memory", "Gt", "511")), True),
        (_affinity(_labels("memory", "Lt", "512")), False),
        (_affinity(_labels("pool", "Gt", "1")), False),
        (_affinity({}), False),
        (
            _affinity(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}
            ),
            True,
        ),
        ({"nodeSelector": {"no": "such"}, **_affinity(_labels("pool", "Exists"))}, False),
    ],
)
def test_a_pod_fits_the_nodes_that_its_selectors_match(spec: dict[str, Any], fits: bool) -> None:
    assert any_of_its_kind({"spec": spec}, [NODE]) is fits
    assert not any_of_its_kind({"spec": spec}, [])
