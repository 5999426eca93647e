"""Whether the cluster without other pods could run a job."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.grants import empty_cluster
from di_operator.allocator.grants.empty_cluster import EmptyCluster
from di_operator.allocator.grants.shortage import find_shortage
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import job, node, task

Object = dict[str, Any]


def cluster(*nodes: Object) -> EmptyCluster:
    found = EmptyCluster()
    for each in nodes:
        found.listen("ADDED", each)
    return found


def could_run(found: EmptyCluster, body: Object) -> bool:
    return found.could_run(body, read_spec(body))


def test_all_pods_of_a_job_have_to_fit_together() -> None:
    two = cluster(node("a", 2), node("b", 1))
    answers = [could_run(two, job(f"x{n}", task("learner", n))) for n in (3, 4)]
    assert answers == [True, False]


def test_a_new_node_changes_the_answer_and_its_deletion_too() -> None:
    found, body = cluster(node("a", 1)), job("x", task("learner", 2))
    assert not could_run(found, body)
    found.listen("ADDED", node("b", 1))
    assert could_run(found, body)
    found.listen("DELETED", node("b", 1))
    assert not could_run(found, body)


def test_an_edited_job_is_checked_again() -> None:
    found = cluster(node("a", 2))
    before = job("x", task("learner", 2))
    after = job("x", task("learner", 3))
    after["metadata"]["generation"] = 2
    assert (could_run(found, before), could_run(found, after)) == (True, False)


def test_a_node_update_without_a_change_keeps_the_answers(monkeypatch: Any) -> None:
    asked: list[object] = []
    found, body = cluster(node("a", 2)), job("x", task("learner", 2))
    real = find_shortage

    def counted(*about: Any) -> Any:
        asked.append(about)
        return real(*about)

    monkeypatch.setattr(empty_cluster, "find_shortage", counted)
    for _ in range(3):
        found.listen("MODIFIED", node("a", 2))
        assert could_run(found, body)
    assert len(asked) == 1


@pytest.mark.parametrize("kind", ["job", "node"])
def test_an_unreadable_object_fits_nothing(kind: str) -> None:
    body, place = job("x", task("learner")), node("a", 2)
    if kind == "node":
        place["status"]["allocatable"] = {"cpu": "many"}
    else:
        main = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        main["resources"] = {"requests": {"cpu": "many"}}
    assert not could_run(cluster(place), body)
