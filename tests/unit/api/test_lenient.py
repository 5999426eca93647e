"""What can be read of a spec that this version would not admit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.field_error import InvalidSpec
from di_api.validation import load_leniently
from di_api.validation.lenient import MAX_READABLE_REPLICAS
from tests.unit.api.jobs import Job, coordinated_job, task
from tests.unit.api.refusals import changed, edited

TASKS: Job = {
    "priority": "high",
    "cleanPodPolicy": "All",
    "preemptible": True,
    "backoffLimit": 7,
    "group": "g",
    "suspend": True,
    "activeDeadlineSeconds": 60,
    "ttlSecondsAfterFinished": 0,
    "scheduling": {"gang": True},
    "volumes": [{"name": "data", "emptyDir": {}}],
    "tasks": [
        task(),
        task("none", name="n", replicas=3, minReplicas=2, maxReplicas=4, dependsOn=["learner"]),
    ],
}
COORDINATED: Job = edited(
    coordinated_job(),
    "coordinated.priorityClassName=urgent; coordinated.replicas=[{name: a, role: aggregator}, "
    "{name: d, role: ddp-learner, aggregator: a, resources: {cpu: 1}}, "
    "{name: c, role: collector, generation: 2, resources: {memory: 1Gi}}]",
)["spec"]


CONTAINER = "tasks[0].template.spec.containers[0]"
OF_OTHER_RULES = [
    "flavour=new",
    "tasks[0].flavour=new",
    "scheduling.flavour=new",
    f"{CONTAINER}.flavour=new",
    "tasks[1].replicas=9",
    "tasks[1].replicas=0",
    "tasks[1].maxReplicas=1000000000",
    "tasks[0].dependsOn=[n]",
    "tasks[2]={type: learner, name: other, template: {spec: {containers: [{name: a}]}}}",
    "tasks[1].name=Not_A_Label",
    f"{CONTAINER}.resources.limits.cpu=GB",
    f"group={'g' * 999}",
]


@pytest.mark.parametrize("changes", OF_OTHER_RULES)
def test_a_spec_of_other_rules_is_read(changes: str) -> None:
    spec = edited({"spec": TASKS}, changes)["spec"]
    read = load_leniently(spec)
    assert [(each.name, each.replicas) for each in read.tasks] == [
        (each.get("name", "learner"), each.get("replicas", 1)) for each in spec["tasks"]
    ]


REPLICAS = "coordinated.replicas"
UNREADABLE: list[tuple[Job, str, str]] = [
    (TASKS, "priority=urgent", "priority"),
    (TASKS, 'suspend="yes"', "suspend"),
    (TASKS, 'backoffLimit="3"', "backoffLimit"),
    (TASKS, f"activeDeadlineSeconds={10**400}", "activeDeadlineSeconds"),
    (TASKS, "volumes={}", "volumes"),
    (TASKS, "tasks[0].type=actor; tasks[0].name=a", "tasks[0].type"),
    (TASKS, 'tasks[1].replicas="2"', "tasks[1].replicas"),
    (TASKS, "tasks[1].replicas=-1", "tasks[1].replicas"),
    (TASKS, "tasks[1].template=", "tasks[1].template"),
    (TASKS, "tasks[1].name=", "tasks[1].name"),
    (TASKS, "tasks[2]={type: learner, template: {spec: {containers: [{name: a}]}}}", "tasks"),
    (TASKS, "tasks[0].template.metadata.labels=[]", "tasks[0].template.metadata.labels"),
    (TASKS, f"{CONTAINER}.ports=[x]", f"{CONTAINER}.ports[0]"),
    (TASKS, f"{CONTAINER}.env=[{{name: {{}}}}]", f"{CONTAINER}.env[0].name"),
    (TASKS, "tasks=", "tasks"),
    (TASKS | COORDINATED, "", "tasks"),
    (TASKS, f"tasks[1].replicas={MAX_READABLE_REPLICAS}", "tasks"),
    (COORDINATED, f"{REPLICAS}[0].role=coordinator", f"{REPLICAS}[0].role"),
    (COORDINATED, f"{REPLICAS}[1].resources.cpu=[]", f"{REPLICAS}[1].resources.cpu"),
    (COORDINATED, f"{REPLICAS}[0].name=c", "coordinated"),
    (COORDINATED, "coordinated.coordinator=", "coordinated.coordinator"),
]


@pytest.mark.parametrize(("good", "changes", "path"), UNREADABLE)
def test_a_spec_without_meaning_is_unreadable(good: Job, changes: str, path: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load_leniently(edited({"spec": good}, changes)["spec"])
    assert [error.path for error in caught.value.errors] == [f"spec.{path}"]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
PLACES = [
    *("tasks", "volumes", "scheduling", "tasks[0]", "tasks[0].template", "tasks[0].template.spec"),
    *("tasks[0].template.spec.containers", "tasks[1].dependsOn", "coordinated"),
]


@given(st.sampled_from(PLACES), JSON)
def test_any_value_in_a_spec_is_read_or_unreadable(place: str, value: Any) -> None:
    with suppress(InvalidSpec):
        load_leniently(changed({"spec": TASKS}, f"spec.{place}", value)["spec"])
