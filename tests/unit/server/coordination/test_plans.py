"""Which replicas a request makes, takes away or puts in the places of others."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from di_api.spec import Role
from di_server.coordination import plans
from di_server.coordination.listing import listing
from di_server.coordination.plans import NameGenerator, Plan
from di_server.coordination.requests import demand
from di_server.model.job import Job
from di_server.problems import NotNow, OutOfBounds
from tests.unit.server.fakes import Object, coordinated, replica, template

_GROUPED = (
    replica("c1"),
    replica("a1", "aggregator"),
    replica("d1", "ddp-learner", aggregator="a1", resources={"nvidia.com/gpu": 8}),
    replica("d2", "ddp-learner", aggregator="a1", resources={"nvidia.com/gpu": "2"}),
    replica("l1", "learner"),
    replica("a2", "aggregator"),
    replica("d3", "ddp-learner", aggregator="a2", resources={"nvidia.com/gpu": 2}),
    replica("c2"),
)


def _add(job: Object, node_gpus: int = 0, **asked: Object) -> Plan:
    found = Job(job)
    return plans.add(found, demand(asked), NameGenerator(found, Random(1)), node_gpus=node_gpus)


def _remove(job: Object, collectors: int = 0, learners: int = 0) -> Plan:
    asked = {"collectors": {"replicas": collectors}, "learners": {"replicas": learners}}
    return plans.remove(Job(job), demand(asked))


def _replace(job: Object, *failed: str) -> Plan:
    found = Job(job)
    return plans.replace(found, frozenset(failed), NameGenerator(found, Random(1)))


def _names(plan: Plan) -> list[str]:
    return [each.name for each in plan.touched]


def test_new_replicas_are_appended_collectors_first() -> None:
    plan = _add(
        coordinated(replica("old", generation=3)),
        learners={"replicas": 1, "cpus": 2, "gpus": 1},
        collectors={"replicas": 2, "memory": "1Gi"},
    )
    old, *new = [each.dump() for each in plan.replicas]
    assert old == {"name": "old", "role": "collector", "generation": 3}
    assert [(each["role"], each["resources"]) for each in new] == [
        ("collector", {"memory": "1Gi"}),
        ("collector", {"memory": "1Gi"}),
        ("learner", {"cpu": "2", "nvidia.com/gpu": 1}),
    ]
    assert plan.touched == plan.replicas[1:]
    for each in plan.touched:
        assert each.name.startswith(f"cartpole-{each.role}-")
        assert len(each.name) == len(f"cartpole-{each.role}-") + 5


@pytest.mark.parametrize(
    ("count", "gpus", "aggregators", "plain", "parts"),
    [(1, 1, 0, 1, []), (1, 2, 1, 0, [2]), (1, 10, 1, 0, [8, 2]), (2, 2, 2, 0, [2, 2])],
)
def test_a_learner_on_several_gpus_has_an_aggregator_and_its_parts(
    count: int, gpus: int, aggregators: int, plain: int, parts: list[int]
) -> None:
    learners = {"replicas": count, "gpus": gpus, "cpus": 4}
    plan = _add(coordinated(), 8, learners=learners)
    roles = Counter(each.role for each in plan.replicas)
    assert (roles[Role.AGGREGATOR], roles[Role.LEARNER]) == (aggregators, plain)
    ddp = [each for each in plan.replicas if each.role is Role.DDP_LEARNER]
    assert [each.gpus for each in ddp] == parts
    assert all(each.resources["cpu"] == "4" for each in ddp)
    aggregator = None
    for each in plan.replicas:
        if each.role is Role.AGGREGATOR:
            aggregator = each.name
            assert not each.resources
        assert each.aggregator == (aggregator if each.role is Role.DDP_LEARNER else None)


def test_names_of_replicas_are_unique_in_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = iter(["bbbbb", "bbbbb", "ccccc", "ccccc", "bbbbb", "ddddd"])
    rng = Random()
    monkeypatch.setattr(rng, "choices", lambda *_, **__: [next(suffixes)])
    names = NameGenerator(Job(coordinated(replica("cartpole-collector-bbbbb"))), rng)
    assert [names.new(Role.COLLECTOR) for _ in range(2)] == [
        "cartpole-collector-ccccc",
        "cartpole-collector-ddddd",
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"collectors": {"replicas": 2041}},
        {"learners": {"replicas": 1021, "gpus": 2}},
        {"learners": {"replicas": 2, "gpus": 1024}, "node_gpus": 1},
    ],
)
def test_a_job_has_2048_replicas_at_most(asked: dict[str, Any]) -> None:
    job = coordinated(*_GROUPED)
    assert len(_add(job, collectors={"replicas": 2040}).replicas) == 2048
    with pytest.raises(OutOfBounds, match="2048"):
        _add(job, **asked)


def test_a_role_without_a_template_is_refused() -> None:
    job = coordinated(roles=["collector"])
    assert len(_add(job, collectors={"replicas": 1}, learners={"replicas": 0}).touched) == 1
    with pytest.raises(OutOfBounds, match="no learner template"):
        _add(job, learners={"replicas": 1})


@pytest.mark.parametrize(
    ("collectors", "learners", "gone"),
    [
        (0, 0, []),
        (1, 0, ["c2"]),
        (9, 0, ["c1", "c2"]),
        (0, 1, ["a2", "d3"]),
        (0, 2, ["l1", "a2", "d3"]),
        (1, 9, ["a1", "d1", "d2", "l1", "a2", "d3", "c2"]),
    ],
)
def test_the_newest_replicas_are_removed_and_learners_as_a_whole(
    collectors: int, learners: int, gone: list[str]
) -> None:
    job = coordinated(*_GROUPED)
    plan = _remove(job, collectors, learners)
    assert _names(plan) == gone
    kept = [each for each in Job(job).replicas if each.name not in gone]
    assert list(plan.replicas) == kept


@pytest.mark.parametrize(
    ("failed", "places"),
    [
        ([], []),
        (["unknown"], []),
        (["c2", "unknown"], [7]),
        (["c1", "l1"], [0, 4]),
        (["d2"], [2, 3]),
        (["d1", "d2"], [2, 3]),
        (["a1"], [1, 2, 3]),
        (["a1", "d1"], [1, 2, 3]),
        (["a2", "d2"], [2, 3, 5, 6]),
    ],
)
def test_failed_replicas_are_replaced_in_their_places(failed: list[str], places: list[int]) -> None:
    old = Job(coordinated(*_GROUPED)).replicas
    plan = _replace(coordinated(*_GROUPED), *failed)
    changed = [
        index
        for index, (before, after) in enumerate(zip(old, plan.replicas, strict=True))
        if before != after
    ]
    assert changed == places
    assert plan.touched == tuple(plan.replicas[place] for place in places)
    for place in places:
        before, after = old[place], plan.replicas[place]
        assert after.name not in {each.name for each in old}
        assert (after.role, after.resources) == (before.role, before.resources)
        assert after.generation == 1
    new_names = {old[place].name: plan.replicas[place].name for place in places}
    for before, after in zip(old, plan.replicas, strict=True):
        group = before.aggregator
        assert after.aggregator == (new_names.get(group, group) if group else None)


def test_the_generation_of_a_replacement_grows() -> None:
    plan = _replace(coordinated(replica("c1", generation=4)), "c1")
    assert [each.generation for each in plan.touched] == [5]


@pytest.mark.parametrize(
    "job",
    [
        *(coordinated(*_GROUPED, phase=phase) for phase in ("Succeeded", "Failed")),
        coordinated(*_GROUPED, suspend=True),
        coordinated(*_GROUPED)
        | {"metadata": {"namespace": "rl", "name": "cartpole", "deletionTimestamp": "2026-01-01"}},
    ],
)
def test_a_job_that_does_not_run_takes_no_changes(job: Object) -> None:
    with pytest.raises(NotNow):
        _add(job, collectors={"replicas": 1})
    with pytest.raises(NotNow):
        _remove(job, 1)
    with pytest.raises(NotNow):
        _replace(job, "c1")


def test_a_plan_is_written_under_the_version_it_was_made_on() -> None:
    job = Job(coordinated(replica("c1"), replica("c2")))
    version, replicas = plans.patch(job, plans.remove(job, demand({"collectors": {"replicas": 1}})))
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
    assert replicas == {
        "op": "add",
        "path": "/spec/coordinated/replicas",
        "value": [{"name": "c1", "role": "collector"}],
    }


def _listed(job: Object, pod: str, port: int = 22272) -> tuple[list[str], list[str]]:
    found = Job(job)
    data = listing(found, found.replicas, pod, aggregator_port=port)
    assert (data["namespace"], data["coordinator"]) == ("rl", pod)
    return data["collectors"], data["learners"]


def test_a_coordinator_lists_learners_and_an_aggregator_their_gpus() -> None:
    job = coordinated(*_GROUPED)
    assert _listed(job, "cartpole-coordinator") == (
        ["c1.rl:22270", "c2.rl:22270"],
        ["a1.rl:22272", "l1.rl:22271", "a2.rl:22272"],
    )
    gpus = [*(f"d1.rl:{22271 + index}" for index in range(8)), "d2.rl:22271", "d2.rl:22272"]
    assert _listed(job, "a1") == ([], gpus)


def test_ports_are_those_of_the_templates() -> None:
    job = coordinated(*_GROUPED)
    job["spec"]["coordinated"]["collector"]["template"] = template(1000)
    job["spec"]["coordinated"]["learner"]["template"] = template(2000)
    collectors, learners = _listed(job, "cartpole-coordinator", 3000)
    assert collectors == ["c1.rl:1000", "c2.rl:1000"]
    assert learners == ["a1.rl:3000", "l1.rl:2000", "a2.rl:3000"]
    assert _listed(job, "a2")[1] == ["d3.rl:2000", "d3.rl:2001"]


def test_a_huge_number_of_gpus_lists_1024_addresses() -> None:
    huge = replica("d", "ddp-learner", aggregator="a", resources={"nvidia.com/gpu": 10**15})
    assert len(_listed(coordinated(replica("a", "aggregator"), huge), "a")[1]) == 1024
