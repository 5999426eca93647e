"""What can be read of a spec that this version would not admit."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.field_error import InvalidSpec
from di_api.validation import load_leniently
from di_api.validation.lenient import MAX_READABLE_REPLICAS
from tests.unit.api.jobs import Job, coordinated_job, task
from tests.unit.api.refusals import changed, edited, refused

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


CONTAINERS = "tasks[0].template.spec.containers"
OF_OTHER_RULES = [
    "flavour=new",
    "tasks[0].flavour=new",
    "scheduling.flavour=new",
    f"{CONTAINERS}[0].flavour=new",
    "tasks[1].replicas=9",
    "tasks[1].replicas=0",
    "tasks[1].maxReplicas=1000000000",
    "tasks[0].dependsOn=[n]",
    "tasks[2]={type: learner, name: other, template: {spec: {containers: [{name: a}]}}}",
    "tasks[1].name=Not_A_Label",
    f"{CONTAINERS}[0].resources.limits.cpu=GB",
    f"group={'g' * 999}",
]


@pytest.mark.parametrize("changes", OF_OTHER_RULES)
def test_a_spec_of_other_rules_is_read(changes: str) -> None:
    spec = edited({"spec": TASKS}, changes)["spec"]
    read = load_leniently(spec)
    assert [(each.name, each.replicas) for each in read.tasks] == [
        (each.get("name", "learner"), each.get("replicas", 1)) for each in spec["tasks"]
    ]


UNREADABLE = [
    ("spec.tasks: a list of 2: a job has tasks or a coordinator", {"spec": TASKS | COORDINATED}),
    *refused(
        {"spec": TASKS},
        f"""
spec.priority: "urgent": must be one of normal, high
spec.suspend: "yes": must be true or false
spec.backoffLimit: "3": must be a whole number, 0 or more
spec.backoffLimit: true: must be a whole number, 0 or more
spec.tasks[0].backoffLimit: 0.5: must be a whole number, 0 or more
(activeDeadlineSeconds={10**400}) spec.activeDeadlineSeconds: a huge number: must be 1 or more, and
  9223372036854775807 or less
spec.activeDeadlineSeconds: 9223372036854775808: must be 1 or more, and 9223372036854775807 or less
spec.volumes: {{}}: must be a list
spec.volumes[0]: 1: must be an object
spec.volumes[0].name: 1: must be a string
spec.scheduling: []: must be an object
spec.tasks: null: a job has tasks or a coordinator
spec.tasks[0]: 1: must be an object
(tasks[0].name=a) spec.tasks[0].type: "actor": must be one of learner, collector, evaluator, none
spec.tasks[1].replicas: "2": must be a whole number, 0 or more
spec.tasks[1].replicas: -1: must be 0 or more, and 9223372036854775807 or less
(tasks[1].replicas={MAX_READABLE_REPLICAS}) spec.tasks: a list of 2: 16385 pods, more than 16384
  have never run
spec.tasks[1].template: null: is required
spec.tasks[1].name: null: is required
spec.tasks[1].name: "": is required
spec.tasks[1].name: is required
spec.tasks[1].dependsOn[0]: 1: must be a string
(tasks[1].name=learner) spec.tasks: a list of 2: a name is repeated
(tasks[0].service.ports=[{{name: a, port: 1}}]) spec.tasks[0].service.ports[0].targetPort: 0: must
  be 1 or more, and 9223372036854775807 or less
spec.tasks[0].template.metadata.labels: []: must be an object
spec.tasks[0].template.spec: null: must hold at least one container
({CONTAINERS}=[]) spec.tasks[0].template.spec: an object: must hold at least one container
spec.{CONTAINERS}[0].ports[0]: "x": must be an object
spec.{CONTAINERS}[0].name: 1: must be a string
spec.{CONTAINERS}[0].env[0].name: {{}}: must be a string
spec.{CONTAINERS}[0].volumeMounts[0].mountPath: 1: must be a string
spec.{CONTAINERS}[0].resources: []: must be an object
spec.{CONTAINERS}[0].resources.requests: []: must be an object
spec.{CONTAINERS}[0].resources.limits: []: must be an object
(tasks[0].podsPerReplica=2) spec.tasks[0].leaderTemplatePatch.metadata: 1: must be an object
(tasks[0].podsPerReplica=2; tasks[0].leaderTemplatePatch.spec.containers=[])
  spec.tasks[0].leaderTemplatePatch.spec: an object: must hold at least one container
""",
    ),
    *refused(
        {"spec": COORDINATED},
        """
spec.coordinated.replicas[0].role: "coordinator": must be one of collector, learner, ddp-learner,
  aggregator
spec.coordinated.replicas[1].resources.cpu: []: no quantity
spec.coordinated.coordinator: null: is required
(coordinated.replicas=[{name: a, role: collector}, {name: a, role: collector}]) spec.coordinated: an
  object: a name is repeated
""",
    ),
    ("spec: null: must be an object", {"spec": None}),
]


@pytest.mark.parametrize(("message", "job"), UNREADABLE)
def test_a_spec_without_meaning_is_unreadable(message: str, job: Job) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load_leniently(job["spec"])
    assert str(caught.value) == message


def test_as_many_replicas_are_read_as_may_have_run() -> None:
    read = load_leniently(
        edited({"spec": TASKS}, f"tasks[0].replicas={MAX_READABLE_REPLICAS}; tasks[1].replicas=0")[
            "spec"
        ]
    )
    assert read.replicas == MAX_READABLE_REPLICAS


def test_the_largest_values_are_read() -> None:
    changes = "activeDeadlineSeconds=9223372036854775807; tasks[0].backoffLimit=Unlimited; "
    port = "tasks[0].service.ports=[{name: a, port: 1, targetPort: 1}]"
    read = load_leniently(edited({"spec": TASKS}, changes + port)["spec"])
    assert (read.active_deadline_seconds, read.tasks[0].backoff_limit) == (2**63 - 1, math.inf)


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
