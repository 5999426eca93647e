"""What pods carry to use the quota that a Workload was assigned."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.kueue.injection import Injection, injection_of, unknown_flavors
from di_operator.kueue.workload import Workload

GPU_NODES = {"spec": {"nodeLabels": {"kind": "gpu"}, "tolerations": [{"key": "gpu"}]}}
SPOT = {"spec": {"nodeLabels": {"price": "spot"}, "tolerations": [{"key": "spot"}]}}
FLAVORS = {"gpu": GPU_NODES, "spot": SPOT, "bare": {}}
NOTHING = Injection(labels={}, annotations={}, node_selector={}, tolerations=())


def workload(flavors: dict[str, str], *updates: dict[str, Any]) -> Workload:
    assigned = [{"name": "learner", "flavors": flavors}]
    checks = [{"podSetUpdates": [update]} for update in updates]
    raw = {
        "metadata": {"name": "w", "uid": "u"},
        "status": {"admission": {"podSetAssignments": assigned}, "admissionChecks": checks},
    }
    return Workload.read(raw)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (workload({}), NOTHING),
        (workload({"cpu": "bare", "memory": "unknown"}), NOTHING),
        (
            workload({"cpu": "spot", "nvidia.com/gpu": "gpu"}),
            Injection(
                labels={},
                annotations={},
                node_selector={"kind": "gpu", "price": "spot"},
                tolerations=({"key": "gpu"}, {"key": "spot"}),
            ),
        ),
        (
            workload(
                {"cpu": "gpu"},
                {
                    "name": "learner",
                    "labels": {"a": "b"},
                    "annotations": {"c": "d"},
                    "nodeSelector": {"kind": "new"},
                    "tolerations": [{"key": "new"}],
                },
                {"name": "collector", "labels": {"of": "another"}},
            ),
            Injection(
                labels={"a": "b"},
                annotations={"c": "d"},
                node_selector={"kind": "new"},
                tolerations=({"key": "gpu"}, {"key": "new"}),
            ),
        ),
    ],
    ids=["nothing", "flavors without nodes", "two flavors", "checks before flavors"],
)
def test_a_pod_set_carries_what_its_flavors_and_checks_say(
    found: Workload, expected: Injection
) -> None:
    assert injection_of(found, "learner", FLAVORS.get) == expected
    assert injection_of(found, "evaluator", FLAVORS.get) == NOTHING


def test_assigned_flavors_that_cannot_be_found_are_named() -> None:
    found = workload({"cpu": "none", "memory": "gpu", "nvidia.com/gpu": "lost"})
    assert unknown_flavors(found, FLAVORS.get) == ("lost", "none")


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("labels", {"a": "b"}, ("metadata", "labels")),
        ("annotations", {"a": "b"}, ("metadata", "annotations")),
        ("node_selector", {"a": "b"}, ("spec", "nodeSelector")),
        ("tolerations", ({"key": "a"},), ("spec", "tolerations")),
    ],
)
def test_an_injection_is_added_to_what_a_template_has(
    field: str, value: Any, path: tuple[str, str]
) -> None:
    plain: dict[str, Any] = {"labels": {}, "annotations": {}, "node_selector": {}}
    injection = Injection(**{"tolerations": (), **plain, field: value})
    outer, inner = path
    is_list = inner == "tolerations"
    before: Any = [{"key": "own"}] if is_list else {"own": "x", "a": "old"}
    after: Any = [{"key": "own"}, {"key": "a"}] if is_list else {"own": "x", "a": "b"}
    for spec in ({inner: before}, {inner: after}):
        template = {outer: {**spec, "other": 1}}
        made = injection.into(template)
        assert made[outer] == {inner: after, "other": 1}
        assert template[outer][inner] == spec[inner]
    empty = injection.into({"kind": "t"})
    assert empty[outer][inner] == ([*value] if is_list else value)
    assert injection.into({}) == {}
    assert NOTHING.into(template) is template
