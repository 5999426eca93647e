"""What the allocator may give a job with a queue."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.validation import load_leniently
from di_operator.allocator.admission.admitted import within_admitted
from di_operator.allocator.observe.changes import News


def job(admitted: object = None, *, preemptible: bool = True) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "di-container", "image": "train:1"}]}}
    task = {"name": "work", "type": "none", "replicas": 4, "minReplicas": 2, "maxReplicas": 8}
    return {
        "metadata": {"uid": "u", "generation": 1},
        "spec": {"preemptible": preemptible, "tasks": [{**task, "template": template}]},
        "status": {"admitted": admitted} if admitted is not None else {},
    }


@pytest.mark.parametrize(
    ("admitted", "preemptible", "sizes"),
    [
        pytest.param({"work": 3}, True, (2, 3, 3), id="less than it wants"),
        pytest.param({"work": 6}, True, (2, 4, 6), id="more than it wants"),
        pytest.param({"work": 99}, True, (2, 4, 8), id="more than it may have"),
        pytest.param({"work": 1}, True, (2, 2, 2), id="never less than it needs"),
        pytest.param({"other": 1}, True, (2, 4, 8), id="of another task"),
        pytest.param({"work": "3"}, True, (2, 4, 8), id="of no number"),
        pytest.param(7, True, (2, 4, 8), id="of another shape"),
        pytest.param({}, True, (2, 4, 8), id="no queue"),
        pytest.param({"work": 3}, False, (2, 4, 8), id="not the allocator's"),
    ],
)
def test_a_queued_job_has_at_most_its_admitted_replicas(
    admitted: object, preemptible: bool, sizes: tuple[int, int, int]
) -> None:
    spec = load_leniently(job(preemptible=preemptible)["spec"])
    (task,) = within_admitted(spec, admitted).tasks
    assert (task.min_replicas, task.replicas, task.max_replicas) == sizes


def test_a_queued_job_without_a_minimum_has_as_few_as_one_admitted_replica() -> None:
    body = job()["spec"]
    del body["tasks"][0]["minReplicas"]
    (task,) = within_admitted(load_leniently(body), {"work": 1}).tasks
    assert (task.min_replicas, task.replicas, task.max_replicas) == (None, 1, 1)


def test_a_changed_admission_is_news() -> None:
    news = News(monotonic=lambda: 0.0)
    assert news.on_job("ADDED", job({"work": 2}))
    assert not news.on_job("MODIFIED", job({"work": 2}))
    assert news.on_job("MODIFIED", job({"work": 3}))
