"""What can be read of a spec that this version would not admit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.field_error import InvalidSpec
from di_api.validation import load_leniently
from di_api.validation.lenient import MAX_READABLE_REPLICAS
from tests.unit.api.jobs import Job, task, template

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
COORDINATED: Job = {
    "coordinated": {
        "coordinator": {"template": template()},
        "collector": {"template": template()},
        "learner": {"template": template()},
        "priorityClassName": "urgent",
        "replicas": [
            {"name": "a", "role": "aggregator"},
            {"name": "d", "role": "ddp-learner", "aggregator": "a", "resources": {"cpu": 1}},
            {"name": "c", "role": "collector", "generation": 2, "resources": {"memory": "1Gi"}},
        ],
    },
}


def changed(base: Job, change: Callable[[Job], object]) -> Job:
    spec = deepcopy(base)
    change(spec)
    return spec


def container(spec: Job) -> Job:
    found: Job = spec["tasks"][0]["template"]["spec"]["containers"][0]
    return found


OF_OTHER_RULES: dict[str, Callable[[Job], object]] = {
    "an unknown field of the spec": lambda s: s.update(flavour="new"),
    "an unknown field of a task": lambda s: s["tasks"][0].update(flavour="new"),
    "an unknown field of scheduling": lambda s: s["scheduling"].update(flavour="new"),
    "an unknown field of a template": lambda s: container(s).update(flavour="new"),
    "replicas out of bounds": lambda s: s["tasks"][1].update(replicas=9),
    "no replicas": lambda s: s["tasks"][1].update(replicas=0),
    "a bound past everything": lambda s: s["tasks"][1].update(maxReplicas=10**9),
    "a circle": lambda s: s["tasks"][0].update(dependsOn=["n"]),
    "two learners": lambda s: s["tasks"].append(task(name="other")),
    "a name that is no label": lambda s: s["tasks"][1].update(name="Not_A_Label"),
    "a quantity that is none": lambda s: container(s).update(resources={"limits": {"cpu": "GB"}}),
    "a long group": lambda s: s.update(group="g" * 999),
}


@pytest.mark.parametrize("change", OF_OTHER_RULES.values(), ids=OF_OTHER_RULES)
def test_what_other_rules_admit_is_read(change: Callable[[Job], object]) -> None:
    spec = changed(TASKS, change)
    read = load_leniently(spec)
    assert [each.name for each in read.tasks] == [
        each.get("name", "learner") for each in spec["tasks"]
    ]
    assert [each.replicas for each in read.tasks] == [
        each.get("replicas", 1) for each in spec["tasks"]
    ]


UNREADABLE: dict[str, tuple[Callable[[Job], object], str]] = {
    "an unknown word": (lambda s: s.update(priority="urgent"), "spec.priority"),
    "another type": (lambda s: s.update(suspend="yes"), "spec.suspend"),
    "a limit that is text": (lambda s: s.update(backoffLimit="3"), "spec.backoffLimit"),
    "a deadline past all clocks": (
        lambda s: s.update(activeDeadlineSeconds=10**400),
        "spec.activeDeadlineSeconds",
    ),
    "a list that is none": (lambda s: s.update(volumes={}), "spec.volumes"),
    "an unknown type of task": (
        lambda s: s["tasks"][0].update(type="actor", name="a"),
        "spec.tasks[0].type",
    ),
    "replicas as text": (lambda s: s["tasks"][1].update(replicas="2"), "spec.tasks[1].replicas"),
    "fewer than no replicas": (
        lambda s: s["tasks"][1].update(replicas=-1),
        "spec.tasks[1].replicas",
    ),
    "no template": (lambda s: s["tasks"][1].pop("template"), "spec.tasks[1].template"),
    "no name": (lambda s: s["tasks"][1].pop("name"), "spec.tasks[1].name"),
    "two of one name": (lambda s: s["tasks"].append(task()), "spec.tasks"),
    "labels that are a list": (
        lambda s: s["tasks"][0]["template"].update(metadata={"labels": []}),
        "spec.tasks[0].template.metadata.labels",
    ),
    "ports that are words": (
        lambda s: container(s).update(ports=["x"]),
        "spec.tasks[0].template.spec.containers[0].ports[0]",
    ),
    "a variable whose name is an object": (
        lambda s: container(s).update(env=[{"name": {}}]),
        "spec.tasks[0].template.spec.containers[0].env[0].name",
    ),
    "no pods at all": (lambda s: s.pop("tasks"), "spec.tasks"),
    "both kinds": (lambda s: s.update(COORDINATED), "spec.tasks"),
    "more pods than ever ran": (
        lambda s: s["tasks"][1].update(replicas=MAX_READABLE_REPLICAS),
        "spec.tasks",
    ),
}


@pytest.mark.parametrize(("change", "path"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_has_no_meaning_here_is_unreadable(change: Callable[[Job], object], path: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load_leniently(changed(TASKS, change))
    assert [error.path for error in caught.value.errors] == [path]


def of_coordinated(spec: Job) -> Job:
    found: Job = spec["coordinated"]
    return found


UNREADABLE_REPLICAS: dict[str, tuple[Callable[[Job], object], str]] = {
    "a second coordinator": (
        lambda s: of_coordinated(s)["replicas"][0].update(role="coordinator"),
        "spec.coordinated.replicas[0].role",
    ),
    "an amount that is none": (
        lambda s: of_coordinated(s)["replicas"][1].update(resources={"cpu": []}),
        "spec.coordinated.replicas[1].resources.cpu",
    ),
    "two of one name": (
        lambda s: of_coordinated(s)["replicas"][0].update(name="c"),
        "spec.coordinated",
    ),
    "no coordinator": (
        lambda s: of_coordinated(s).pop("coordinator"),
        "spec.coordinated.coordinator",
    ),
}


@pytest.mark.parametrize(("change", "path"), UNREADABLE_REPLICAS.values(), ids=UNREADABLE_REPLICAS)
def test_the_same_holds_with_a_coordinator(change: Callable[[Job], object], path: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load_leniently(changed(COORDINATED, change))
    assert [error.path for error in caught.value.errors] == [path]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
PLACES = [
    ("tasks",),
    ("volumes",),
    ("scheduling",),
    ("tasks", 0),
    ("tasks", 0, "template"),
    ("tasks", 0, "template", "spec"),
    ("tasks", 0, "template", "spec", "containers"),
    ("tasks", 1, "dependsOn"),
    ("coordinated",),
]


@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_there_nothing_else_is_raised(place: tuple[Any, ...], value: Any) -> None:
    spec = deepcopy(TASKS)
    owner: Any = spec
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    with suppress(InvalidSpec):
        load_leniently(spec)
