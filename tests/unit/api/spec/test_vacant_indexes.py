"""Which indexes replicas have when some are left out, and where none may be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.indexes.replicas import filled, indexes, left_vacant
from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, task
from tests.unit.api.refusals import refused

PLACES = st.sets(st.integers(0, 20))
COUNTS = st.integers(0, 20)


@pytest.mark.proves(
    "roles.md#who-goes/kubectl-sets-replicas-4",
    "roles.md#who-goes/kubectl-sets-replicas-1",
    "roles.md#who-goes/kubectl-sets-vacant",
    "dijob.md#spec-tasks/vacant",
)
@given(COUNTS, PLACES)
def test_replicas_have_the_lowest_indexes_that_are_not_vacant(count: int, vacant: set[int]) -> None:
    found = list(indexes(count, vacant))
    assert len(found) == count
    assert found == sorted(set(found))
    assert not vacant & {*found}
    assert all(index in vacant or index in found for index in range(max(found, default=0)))


@given(COUNTS, PLACES)
def test_vacancies_above_the_last_index_mean_nothing(count: int, vacant: set[int]) -> None:
    left = left_vacant(count, vacant)
    assert list(indexes(count, left)) == list(indexes(count, vacant))
    assert all(index < max(indexes(count, left)) for index in left)


@pytest.mark.proves(
    "roles.md#who-goes/delete-of-one",
    "roles.md#who-goes/delete-of-3-by-name",
    "roles.md#who-goes/delete-of-2-by-name",
)
@given(st.integers(1, 20), PLACES, st.data())
def test_removed_indexes_go_and_all_others_stay(
    count: int, vacant: set[int], data: st.DataObject
) -> None:
    before = {*indexes(count, vacant)}
    gone = data.draw(st.sets(st.sampled_from(sorted(before))))
    left = left_vacant(count - len(gone), vacant | gone)
    assert {*indexes(count - len(gone), left)} == before - gone


@pytest.mark.proves("roles.md#who-goes/post-of-one", "roles.md#who-goes/post-of-two")
@given(COUNTS, PLACES, COUNTS)
def test_added_replicas_get_the_lowest_free_indexes_and_others_stay(
    count: int, vacant: set[int], added: int
) -> None:
    before = {*indexes(count, vacant)}
    after = {*indexes(count + added, filled(count, vacant, added))}
    free = (index for index in range(100) if index not in before)
    assert after == before | {next(free) for _ in range(added)}


BAD = refused(
    job(),
    """
spec.tasks[0].vacant: 1: must be a list
spec.tasks[0].vacant[0]: -1: must be 0 or more
spec.tasks[0].vacant[0]: 4096: must be 4095 or less
(tasks[0].vacant=[1, 1]) spec.tasks[0].vacant: a list of 2: must hold no index twice
(tasks[0].vacant=[1]; preemptible=true) spec.tasks[0].vacant: a list of 1: the allocator chooses
  which replicas a preemptible job has
(tasks[0].vacant=[1]; tasks[0].processGroup={}) spec.tasks[0].vacant: a list of 1: the ranks of a
  process group that is not elastic are its indexes, with no gap
(tasks[0].vacant=[1]; tasks[0].replicas=3; tasks[0].minReplicas=2; tasks[0].elastic={})
  spec.tasks[0].vacant: a list of 1: the core of a task with an elastic tier has the indexes below
  2, with no gap
""",
)


@pytest.mark.parametrize(("message", "bad"), BAD)
def test_bad_vacancies_are_refused(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


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
def test_good_vacancies_are_accepted(fields: dict[str, Any]) -> None:
    assert validate_job(job(task(**fields))) == []


def test_a_vacant_index_counts_as_a_pod() -> None:
    assert validate_job(job(task(replicas=4095, vacant=[7]))) == []
    (error,) = validate_job(job(task(replicas=4095, vacant=[7, 9])))
    assert error.path == "spec.tasks"
    assert validate_job(job(task(replicas=4000, maxReplicas=4096, vacant=[7, 9]))) == []


def test_the_name_of_the_last_pod_has_to_fit_beyond_a_gap() -> None:
    name = "j" * 52
    assert validate_job(job(task(name="a" * 8, replicas=10), name=name)) == []
    (error,) = validate_job(job(task(name="a" * 8, replicas=10, vacant=[0]), name=name))
    assert error.path == "metadata.name"
