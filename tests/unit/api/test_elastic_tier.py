"""Elastic tiers: what is refused, and what pods of which index are made from."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import Task
from di_api.validation import InvalidSpec, load_leniently, validate_job, validate_update
from tests.unit.api.jobs import Job, job, task, template

TIER: Job = {"priorityClassName": "spot"}


def tiered(tier: object = TIER, **fields: Any) -> Job:
    return task(**{"replicas": 3, "minReplicas": 1, "elastic": tier, **fields})


def patched(patch: object, **fields: Any) -> Job:
    return job(tiered({"templatePatch": patch}, **fields))


CPU = {"requests": {"cpu": 2}, "limits": {"cpu": 1}}
LEADER = {"podsPerReplica": 2, "leaderTemplatePatch": {"spec": {"containers": []}}}
BAD = {
    "no minimum": (
        job(tiered(minReplicas=None)),
        "spec.tasks[0].elastic: an object: needs minReplicas: the tier is what a task has beyond",
    ),
    "no room above the minimum": (
        job(tiered(minReplicas=3, maxReplicas=3)),
        "spec.tasks[0].elastic: an object: never has a replica, since minReplicas, 3, is "
        "maxReplicas",
    ),
    "a preemptible job": (
        job(tiered(), preemptible=True),
        "spec.tasks[0].elastic: an object: does not go with preemptible: the allocator itself "
        "chooses how many replicas there are, and takes them all to be alike",
    ),
    "a gang": (
        job(tiered(), scheduling={"gang": True}),
        "spec.tasks[0].elastic: an object: does not go with scheduling.gang, whose pods start all "
        "together",
    ),
    "a process group of fixed size": (
        job(tiered(processGroup={"framework": "torch"})),
        "spec.tasks[0].elastic: an object: does not go with a process group of fixed size, which "
        "lacks whoever is lost; make processGroup.elastic true",
    ),
    "a priority class in two places": (
        job(tiered({**TIER, "templatePatch": {"spec": {"priorityClassName": "low"}}})),
        'spec.tasks[0].elastic.templatePatch.spec.priorityClassName: "low": '
        "elastic.priorityClassName says it already; leave one out",
    ),
    "a tier that is no object": (
        job(tiered(True)),
        "spec.tasks[0].elastic: true: must be an object",
    ),
    "a field that is none": (
        job(tiered({"priorityClass": "spot"})),
        'spec.tasks[0].elastic.priorityClass: "spot": unknown field; did you mean '
        "priorityClassName?",
    ),
    "a patch that is no object": (
        patched([]),
        "spec.tasks[0].elastic.templatePatch: []: must be an object",
    ),
    "a patch in too many words": (
        patched({"metadata": {"annotations": {"a": "x" * 16_384}}}),
        "spec.tasks[0].elastic.templatePatch: an object: may have 16384 characters",
    ),
    "a patch that takes the containers away": (
        patched({"spec": {"containers": []}}),
        "spec.tasks[0].elastic.templatePatch.spec.containers: []: must hold at least one container",
    ),
    "a patch with a label of the operator": (
        patched({"metadata": {"labels": {"diengine/job": "another"}}}),
        'spec.tasks[0].elastic.templatePatch.metadata.labels["diengine/job"]: "another": is '
        'written by the operator as "cartpole"',
    ),
    "a patch with a field that is none": (
        patched({"spec": {"tolerationz": []}}),
        "spec.tasks[0].elastic.templatePatch.spec.tolerationz: []: unknown field; did you mean "
        "tolerations?",
    ),
    "a patch that is wrong beside that of the leaders": (
        patched(
            {
                "spec": {
                    "containers": [{"name": "di-container", "resources": {"limits": {"cpu": 1}}}]
                }
            },
            podsPerReplica=2,
            leaderTemplatePatch={
                "spec": {
                    "containers": [{"name": "di-container", "resources": {"requests": {"cpu": 2}}}]
                }
            },
        ),
        "spec.tasks[0].elastic.templatePatch.spec.containers[0].resources.requests.cpu: 2: must be "
        "at most the limit, 1",
    ),
    "a patch of the leaders that is wrong is told once": (
        patched({}, **LEADER),
        "spec.tasks[0].leaderTemplatePatch.spec.containers: []: must hold at least one container",
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_a_tier_is_refused_with_its_place(bad: Job, message: str) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


GOOD = {
    "nothing that differs": job(tiered({})),
    "no upper bound": job(tiered()),
    "an elastic process group": job(tiered(maxReplicas=4, processGroup={"elastic": True})),
    "replicas that are groups of their own": job(
        tiered(podsPerReplica=2, processGroup={"framework": "torch"})
    ),
    "no replica beyond the minimum for now": job(tiered(replicas=1, maxReplicas=4)),
    "a class in place of that of the template": job(
        tiered(template={"spec": {**template()["spec"], "priorityClassName": "high"}})
    ),
    "nodes for the tier alone": patched(
        {"spec": {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot"}]}}
    ),
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_a_tier_that_goes_well_is_taken(good: Job) -> None:
    assert validate_job(good) == []
    load_leniently(good["spec"])


def test_the_tier_may_not_change_but_its_bounds_may() -> None:
    old = job(tiered())
    new = job(tiered({"priorityClassName": "other"}))
    assert [error.path for error in validate_update(old, new)] == [
        "spec.tasks[0].elastic.priorityClassName"
    ]
    assert validate_update(old, job(tiered(minReplicas=2, replicas=5))) == []


def read(**fields: Any) -> Task:
    (found,) = load_leniently(job(tiered(**fields))["spec"]).tasks
    return found


def test_the_tier_begins_at_the_minimum_by_replica() -> None:
    alone, of_two = read(minReplicas=2), read(minReplicas=2, podsPerReplica=2)
    assert [alone.is_core(index) for index in range(4)] == [True, True, False, False]
    assert [of_two.is_core(index) for index in range(6)] == [True] * 4 + [False] * 2


def test_the_patch_of_the_tier_goes_on_top_of_that_of_the_leader() -> None:
    tier = {
        "priorityClassName": "spot",
        "templatePatch": {"metadata": {"labels": {"tier": "spot"}}},
    }
    leader = {"metadata": {"labels": {"tier": "none", "leads": "yes"}}}
    found = read(
        tier=tier,
        podsPerReplica=2,
        leaderTemplatePatch=leader,
        template={"spec": {**template()["spec"], "priorityClassName": "high", "priority": 7}},
    )
    made = [found.template_of(index) for index in range(4)]
    assert [each.get("metadata", {}).get("labels") for each in made] == [
        {"tier": "none", "leads": "yes"},
        None,
        {"tier": "spot", "leads": "yes"},
        {"tier": "spot"},
    ]
    classes = [each["spec"].get("priorityClassName") for each in made]
    assert classes == ["high", "high", "spot", "spot"]
    assert [each["spec"].get("priority") for each in made] == [7, 7, None, None]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": None}, "spec.tasks[0].elastic.templatePatch.spec: must hold"),
        ({"metadata": {"a": "x" * 16_384}}, "spec.tasks[0].elastic.templatePatch: an object: may"),
    ],
)
def test_a_patch_that_no_pod_can_be_made_from_is_not_read(patch: Job, message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        load_leniently(patched(patch)["spec"])
    assert str(refused.value.errors[0]).startswith(message)
