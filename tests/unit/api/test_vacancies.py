"""Which indexes replicas have when some are left out, and where none may be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.vacancies import filled, indexes, left_vacant
from di_api.validation import validate_job
from tests.unit.api.jobs import job, task

PLACES = st.sets(st.integers(0, 20))
COUNTS = st.integers(0, 20)


@given(COUNTS, PLACES)
def test_replicas_have_the_lowest_indexes_that_are_not_vacant(count: int, vacant: set[int]) -> None:
    found = list(indexes(count, vacant))
    assert len(found) == count
    assert found == sorted(set(found))
    assert not vacant & {*found}
    assert all(index in vacant or index in found for index in range(max(found, default=0)))


@given(COUNTS, PLACES)
def test_what_is_left_out_above_the_last_means_nothing(count: int, vacant: set[int]) -> None:
    left = left_vacant(count, vacant)
    assert list(indexes(count, left)) == list(indexes(count, vacant))
    assert all(index < max(indexes(count, left)) for index in left)


@given(st.integers(1, 20), PLACES, st.data())
def test_who_is_taken_is_gone_and_all_others_stay(
    count: int, vacant: set[int], data: st.DataObject
) -> None:
    before = {*indexes(count, vacant)}
    gone = data.draw(st.sets(st.sampled_from(sorted(before))))
    left = left_vacant(count - len(gone), vacant | gone)
    assert {*indexes(count - len(gone), left)} == before - gone


@given(COUNTS, PLACES, COUNTS)
def test_who_is_added_has_the_lowest_free_index_and_all_others_stay(
    count: int, vacant: set[int], added: int
) -> None:
    before = {*indexes(count, vacant)}
    after = {*indexes(count + added, filled(count, vacant, added))}
    free = (index for index in range(100) if index not in before)
    assert after == before | {next(free) for _ in range(added)}


FIXED = "the ranks of a process group that is not elastic are its indexes, with no gap"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no list": (job(task(vacant=1)), "spec.tasks[0].vacant: 1: must be a list"),
    "a negative index": (
        job(task(vacant=[-1])),
        "spec.tasks[0].vacant[0]: -1: must be 0 or more",
    ),
    "an index that no job has": (
        job(task(vacant=[4096])),
        "spec.tasks[0].vacant[0]: 4096: must be 4095 or less",
    ),
    "one index twice": (
        job(task(vacant=[1, 1])),
        "spec.tasks[0].vacant: a list of 2: must hold no index twice",
    ),
    "a preemptible job": (
        job(task(vacant=[1]), preemptible=True),
        "spec.tasks[0].vacant: a list of 1: the allocator chooses which replicas a preemptible job "
        "has",
    ),
    "members that are ranked by index": (
        job(task(vacant=[1], processGroup={})),
        f"spec.tasks[0].vacant: a list of 1: {FIXED}",
    ),
    "the core beside an elastic tier": (
        job(task(vacant=[1], replicas=3, minReplicas=2, maxReplicas=4, elastic={})),
        "spec.tasks[0].vacant: a list of 1: the core of a task with an elastic tier has the "
        "indexes below 2, with no gap",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused(name: str) -> None:
    body, message = BAD[name]
    assert [str(error) for error in validate_job(body)] == [message]


@pytest.mark.parametrize(
    "fields",
    [
        {"vacant": []},
        {"vacant": [1, 3]},
        {"vacant": [2], "replicas": 3, "minReplicas": 2, "maxReplicas": 4, "elastic": {}},
        {"vacant": [1], "processGroup": {}, "podsPerReplica": 2},
        {"vacant": [1], "processGroup": {"elastic": True}, "minReplicas": 1, "maxReplicas": 2},
    ],
)
def test_it_is_taken(fields: dict[str, Any]) -> None:
    assert validate_job(job(task(**fields))) == []


def test_a_place_that_is_kept_free_counts_as_a_pod() -> None:
    assert validate_job(job(task(replicas=4095, vacant=[7]))) == []
    (error,) = validate_job(job(task(replicas=4095, vacant=[7, 9])))
    assert error.path == "spec.tasks"
    assert validate_job(job(task(replicas=4000, maxReplicas=4096, vacant=[7, 9]))) == []


def test_the_name_of_the_last_pod_has_to_fit_beyond_a_gap() -> None:
    name = "j" * 52
    assert validate_job(job(task(name="a" * 8, replicas=10), name=name)) == []
    (error,) = validate_job(job(task(name="a" * 8, replicas=10, vacant=[0]), name=name))
    assert error.path == "metadata.name"
