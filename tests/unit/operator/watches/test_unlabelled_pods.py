"""Which pods that the watch reports as deleted can exist without their label, and when to read
them.
"""

from __future__ import annotations

from typing import Any

import pytest

from di_kube.cache import ADDED, DELETED, MODIFIED
from di_operator.cluster import unlabelled_pods
from di_operator.cluster.unlabelled_pods import AT_ONCE, LONGEST, UnlabelledPods
from di_operator.process.controller import JobKey
from tests.unit.operator.watches.test_deleted_pods import NAMESPACE, pod

KEY = JobKey(NAMESPACE, "a")


class Lost:
    """The lost pods, with a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pods = UnlabelledPods(monotonic=lambda: self.seconds)

    def lose(self, name: str = "a-0", job: str = "a", **metadata: Any) -> None:
        body = pod(name, job)
        body["metadata"] |= metadata
        self.pods.follow(DELETED, body)

    def due(self, job: str = "a") -> list[str]:
        return [each.name for each in self.pods.due(JobKey(NAMESPACE, job))]


@pytest.mark.parametrize(
    ("metadata", "is_read"),
    [
        pytest.param({}, True, id="nothing had deleted it"),
        pytest.param(
            {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, True, id="it was ending"
        ),
        pytest.param(
            {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, False, id="it has ended"
        ),
        pytest.param({"ownerReferences": []}, False, id="it is of no job"),
    ],
)
def test_a_complete_deletion_needs_no_read(metadata: dict[str, Any], is_read: bool) -> None:
    lost = Lost()
    lost.lose(**metadata)
    assert lost.due() == (["a-0"] if is_read else [])


@pytest.mark.parametrize("kind", [ADDED, MODIFIED])
def test_a_pod_that_the_watch_has_again_is_not_read(kind: str) -> None:
    lost = Lost()
    lost.lose()
    lost.lose("a-1")
    lost.pods.follow(kind, pod("a-0"))
    assert lost.due() == ["a-1"]
    lost.pods.forget(KEY, "a-1")
    assert lost.pods.until_due(KEY) is None


def test_reads_of_a_pod_that_loses_its_label_again_and_again_are_delayed() -> None:
    lost = Lost()
    delays = []
    for _ in range(10):
        lost.lose()
        delays.append(lost.pods.until_due(KEY))
        lost.pods.note_try(KEY, "a-0")
        lost.pods.forget(KEY, "a-0")
    assert delays == [0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0, LONGEST, LONGEST]
    lost.lose()
    assert lost.due() == []
    lost.seconds += LONGEST
    assert lost.due() == ["a-0"]


def test_a_refused_restoration_delays_the_next_one() -> None:
    lost = Lost()
    lost.lose()
    for _ in range(AT_ONCE):
        assert lost.due() == ["a-0"]
        lost.pods.note_try(KEY, "a-0")
    assert (lost.due(), lost.pods.until_due(KEY)) == ([], 0.5)


def test_a_pod_that_loses_its_label_again_much_later_is_read_at_once() -> None:
    lost = Lost()
    for _ in range(AT_ONCE + 1):
        lost.pods.note_try(KEY, "a-0")
    lost.seconds += 2.0
    lost.lose()
    assert lost.due() == ["a-0"]


def test_lost_pods_are_bounded_and_the_job_that_has_waited_longest_loses_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unlabelled_pods, "MOST_PODS", 3)
    lost = Lost()
    lost.lose("a-0")
    lost.lose("a-0")  # counts once
    lost.lose("a-1")
    lost.lose("b-0", "b")
    assert lost.due() == ["a-0", "a-1"]
    lost.lose("b-1", "b")
    assert (lost.due("a"), lost.due("b")) == ([], ["b-0", "b-1"])
    for uid in "vwxyz":
        lost.pods.note_try(KEY, uid)
    lost.lose("v")
    assert lost.due() == ["v"]  # its tries are forgotten
