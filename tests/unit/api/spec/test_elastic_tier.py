"""Elastic tiers: what is refused, and what pods of which index are made from."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import Task
from di_api.validation import InvalidSpec, load_leniently, validate_job, validate_update
from tests.unit.api.jobs import Job, job, task, template
from tests.unit.api.refusals import refused

TIER: Job = {"priorityClassName": "spot"}


def tiered(tier: object = TIER, **fields: Any) -> Job:
    return job(task(**{"replicas": 3, "minReplicas": 1, "elastic": tier, **fields}))


BAD = refused(
    tiered(),
    """
(tasks[0].minReplicas=null) spec.tasks[0].elastic: an object: needs minReplicas: the tier is what a
  task has beyond
(tasks[0].minReplicas=3; tasks[0].maxReplicas=3) spec.tasks[0].elastic: an object: never has a
  replica, since minReplicas, 3, is maxReplicas
(preemptible=true) spec.tasks[0].elastic: an object: does not go with preemptible: the allocator
  itself chooses how many replicas there are, and takes them all to be alike
(scheduling.gang=true) spec.tasks[0].elastic: an object: does not go with scheduling.gang, whose
  pods start all together
(tasks[0].processGroup.framework=torch) spec.tasks[0].elastic: an object: does not go with a process
  group of fixed size, which lacks whoever is lost; make processGroup.elastic true
spec.tasks[0].elastic.templatePatch.spec.priorityClassName: "low": elastic.priorityClassName says
  it already; leave one out
spec.tasks[0].elastic: true: must be an object
spec.tasks[0].elastic.priorityClass: "spot": unknown field; did you mean priorityClassName?
spec.tasks[0].elastic.templatePatch: []: must be an object
spec.tasks[0].elastic.templatePatch.spec.containers: []: must hold at least one container
spec.tasks[0].elastic.templatePatch.metadata.labels["diengine/job"]: "another": is written by the
  operator as "cartpole"
spec.tasks[0].elastic.templatePatch.spec.tolerationz: []: unknown field; did you mean tolerations?
(tasks[0].podsPerReplica=2; tasks[0].leaderTemplatePatch.spec.containers=[{name: di-container,
  resources: {requests: {cpu: 2}}}]; tasks[0].elastic.templatePatch.spec.containers=[{name:
  di-container, resources: {limits: {cpu: 1}}}])
  spec.tasks[0].elastic.templatePatch.spec.containers[0].resources.requests.cpu: 2: must be at most
  the limit, 1
(tasks[0].podsPerReplica=2; tasks[0].elastic={templatePatch: {}})
  spec.tasks[0].leaderTemplatePatch.spec.containers: []: must hold at least one container
""",
)
LARGE = {"metadata": {"annotations": {"a": "x" * 16_384}}}
LARGE_PATCH = "spec.tasks[0].elastic.templatePatch: an object: may have 16384 characters"


@pytest.mark.parametrize(
    ("message", "bad"), [*BAD, (LARGE_PATCH, tiered({"templatePatch": LARGE}))]
)
def test_a_bad_elastic_tier_is_refused(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


@pytest.mark.parametrize(
    "good",
    [
        tiered({}),
        tiered(),
        tiered(maxReplicas=4, processGroup={"elastic": True}),
        tiered(podsPerReplica=2, processGroup={"framework": "torch"}),
        tiered(replicas=1, maxReplicas=4),
        tiered(template={"spec": {**template()["spec"], "priorityClassName": "high"}}),
        tiered({"templatePatch": {"spec": {"priorityClassName": "low"}}}),
        tiered({"templatePatch": {"spec": {"nodeSelector": {"a": "b"}, "tolerations": []}}}),
    ],
)
def test_a_good_elastic_tier_is_accepted(good: Job) -> None:
    assert validate_job(good) == []
    load_leniently(good["spec"])


def test_only_the_bounds_of_an_elastic_tier_may_change() -> None:
    old = tiered()
    new = tiered({"priorityClassName": "other"})
    assert [error.path for error in validate_update(old, new)] == [
        "spec.tasks[0].elastic.priorityClassName"
    ]
    assert validate_update(old, tiered(minReplicas=2, replicas=5)) == []


def read(**fields: Any) -> Task:
    (found,) = load_leniently(tiered(**fields)["spec"]).tasks
    return found


def test_the_elastic_tier_begins_at_min_replicas() -> None:
    alone, of_two = read(minReplicas=2), read(minReplicas=2, podsPerReplica=2)
    assert [alone.is_core(index) for index in range(4)] == [True, True, False, False]
    assert [of_two.is_core(index) for index in range(6)] == [True] * 4 + [False] * 2


def test_the_patch_of_the_tier_is_applied_after_that_of_the_leader() -> None:
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
    # Without a class of its own the tier has that of the template.
    classless = read(tier={}, template=found.template)
    assert classless.template_of(2)["spec"]["priorityClassName"] == "high"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": None}, "spec.tasks[0].elastic.templatePatch.spec: must hold"),
        ({"metadata": {"a": "x" * 16_384}}, "spec.tasks[0].elastic.templatePatch: an object: may"),
    ],
)
def test_a_patch_that_makes_no_valid_template_is_unreadable(patch: Job, message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        load_leniently(tiered({"templatePatch": patch})["spec"])
    assert str(refused.value.errors[0]).startswith(message)
