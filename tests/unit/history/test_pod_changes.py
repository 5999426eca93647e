"""What is recorded of pods, and when their logs are read."""

from __future__ import annotations

from typing import Any

import pytest

from di_history.changes.events import event_entry, subject
from di_history.changes.pods import logs_wanted, placement_changes, placement_gone, trimmed
from di_history.records import EntryKind
from tests.unit.history.jobs import NOON, UID, container, ended, event, pod

SEEN = NOON + 500_000


def kept(**options: Any) -> dict[str, Any]:
    return trimmed(pod(**options))


@pytest.mark.proves("history.md#what-is-kept/placements")
def test_a_pod_on_a_node_is_a_placement() -> None:
    (found,) = placement_changes(None, kept(), SEEN)
    assert (found.job, found.pod, found.task, found.rank, found.node, found.gpus) == (
        UID,
        "x-learner-0",
        "learner",
        0,
        "n1",
        2,
    )
    assert (found.since, found.until, found.outcome) == (NOON + 6_000, None, "Running")


@pytest.mark.parametrize("options", [{"node": None}, {"owner": None}])
def test_a_pod_without_a_node_or_a_job_is_no_placement(options: dict[str, Any]) -> None:
    assert placement_changes(None, kept(**options), SEEN) == []


def test_an_unchanged_placement_is_not_written_again() -> None:
    before = kept()
    after = kept(version=21, containers=(container(running={}),))
    assert placement_changes(before, after, SEEN) == []


def test_a_pods_end_is_that_of_its_first_failed_container() -> None:
    after = kept(
        version=21,
        phase="Failed",
        containers=(
            container("side", **ended(0, 65, "Completed")),
            container(**ended(137, 60, "OOMKilled")),
        ),
    )
    (found,) = placement_changes(kept(), after, SEEN)
    assert (found.until, found.outcome, found.reason, found.exit_code) == (
        NOON + 60_000,
        "Failed",
        "OOMKilled",
        137,
    )


def test_the_end_of_the_main_container_is_that_of_its_pod() -> None:
    killed = container("side", **ended(137, 50, "OOMKilled"))
    for phase, sidecar in (("Failed", killed), ("Running", container("side", running={}))):
        body = pod(21, phase=phase, containers=(sidecar, container(**ended(3, 60))))
        body["spec"]["containers"].insert(0, {"name": "side", "image": "s:1"})
        body["spec"]["restartPolicy"] = "Never"
        (found,) = placement_changes(kept(), trimmed(body), SEEN)
        assert (found.until, found.outcome, found.exit_code) == (NOON + 60_000, "Failed", 3)


def test_a_pod_that_is_deleted_has_left_its_node() -> None:
    (found,) = placement_gone(kept(), SEEN)
    assert (found.until, found.outcome, found.version) == (SEEN, "Deleted", 21)


def test_an_ended_pod_keeps_its_end_when_deleted() -> None:
    (found,) = placement_gone(kept(phase="Succeeded", containers=(container(**ended(0)),)), SEEN)
    assert (found.until, found.outcome) == (NOON + 60_000, "Succeeded")


WANTED: dict[str, tuple[dict[str, Any] | None, dict[str, Any], list[tuple[Any, ...]]]] = {
    "nothing of a container that runs": (None, kept(containers=(container(running={}),)), []),
    "that of a container that has ended": (
        kept(containers=(container(running={}),)),
        kept(containers=(container(**ended(1)),)),
        [("di-container", 0, False, True, True)],
    ),
    "that of one that ended well, too": (
        None,
        kept(containers=(container(**ended(0)),)),
        [("di-container", 0, False, True, False)],
    ),
    "that of the container before, when it runs again": (
        kept(containers=(container(running={}),)),
        kept(containers=(container(restarts=1, last=1, running={}),)),
        [("di-container", 0, True, True, True)],
    ),
    "nothing twice": (
        kept(containers=(container(**ended(1)),)),
        kept(version=22, containers=(container(**ended(1)),)),
        [],
    ),
    "that of a pod that is told to end, before it has": (
        kept(containers=(container(running={}),)),
        kept(leaving=True, containers=(container(running={}),)),
        [("di-container", 0, False, False, False)],
    ),
    "and again when it has": (
        kept(leaving=True, containers=(container(running={}),)),
        kept(leaving=True, containers=(container(**ended(143)),)),
        [("di-container", 0, False, True, True)],
    ),
    "nothing of a pod that is nobody's": (
        None,
        kept(owner=None, containers=(container(**ended(1)),)),
        [],
    ),
}


@pytest.mark.parametrize("name", WANTED)
def test_a_container_change_requests_logs(name: str) -> None:
    before, after, expected = WANTED[name]
    found = [
        (each.container, each.attempt, each.previous, each.final, each.failed)
        for each in logs_wanted(before, after)
    ]
    assert found == expected


@pytest.mark.parametrize(
    "odd",
    [{"metadata": {}}, {"metadata": {"labels": []}, "spec": {"containers": [3]}, "status": 1}],
)
def test_an_odd_pod_raises_nothing(odd: dict[str, Any]) -> None:
    found = trimmed(odd)
    assert placement_changes(None, found, SEEN) == []
    assert placement_gone(found, SEEN) == []
    assert logs_wanted(None, found) == []


@pytest.mark.proves("history.md#what-is-kept/conditions-events")
def test_a_repeated_event_is_one_entry() -> None:
    first, again = (event_entry(event(30), UID, SEEN), event_entry(event(35, count=4), UID, SEEN))
    assert first.key == again.key
    assert (again.version, again.kind, again.at) == (35, EntryKind.EVENT, NOON + 40_000)
    assert again.data == {
        "type": "Warning",
        "reason": "JobRestarting",
        "message": "pods failed",
        "object": "DIJob/x",
        "count": 4,
    }
    assert subject(event(about="pod-1")) == ("rl", "pod-1")
