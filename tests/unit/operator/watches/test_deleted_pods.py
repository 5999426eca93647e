"""Succeeded pods are kept after their deletion until their job has counted them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from di_operator.cluster import deleted_pods
from di_operator.cluster.deleted_pods import DeletedPods

NAMESPACE = "team"


class Jobs:
    """The cache of jobs: three that run, and one that has ended."""

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return the job of a name."""
        if namespace != NAMESPACE or name == "gone":
            return None
        phase = "Succeeded" if name == "ended" else "Running"
        return {"metadata": {"uid": f"uid-{name}"}, "status": {"phase": phase}}


def pod(name: str, job: str = "a", uid: str = "", phase: str = "Succeeded") -> dict[str, Any]:
    owner = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "name": job,
        "uid": uid or f"uid-{job}",
        "controller": True,
    }
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "ownerReferences": [owner]}
    return {"metadata": metadata, "spec": {"containers": [{}]}, "status": {"phase": phase}}


@pytest.fixture
def kept() -> DeletedPods:
    return DeletedPods(Jobs())  # type: ignore[arg-type]  # the part of the cache it uses


def names(kept: DeletedPods, job: str = "a") -> list[str]:
    return [each["metadata"]["name"] for each in kept.of_job(f"uid-{job}")]


def test_a_succeeded_pod_is_kept_until_its_job_has_counted_it(kept: DeletedPods) -> None:
    for name in ("x", "y"):
        kept.follow("DELETED", pod(name))
    assert names(kept) == ["x", "y"]
    kept.forget("uid-a", ["x"])
    assert names(kept) == ["y"]
    kept.forget("uid-a")
    assert names(kept) == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("MODIFIED", pod("x")),
        ("DELETED", pod("x", phase="Failed")),
        ("DELETED", pod("x", phase="Running")),
        ("DELETED", pod("x", job="ended")),
        ("DELETED", pod("x", job="gone")),
        ("DELETED", pod("x", uid="uid-of-an-earlier-job")),
        ("DELETED", {**pod("x"), "metadata": {"name": "x", "namespace": NAMESPACE, "uid": "x"}}),
    ],
)
def test_no_other_pod_is_kept(kept: DeletedPods, kind: str, body: dict[str, Any]) -> None:
    kept.follow(kind, body)
    assert [names(kept, job) for job in ("a", "ended", "gone", "of-an-earlier-job")] == [[]] * 4


AT = "2026-01-01T12:00:00Z"


CONFIRMED: Final = -1
"""In place of a grace period: the kubelet has confirmed the end, a second later."""


def stage(phase: str, grace: int | None, at: str = AT) -> dict[str, Any]:
    """The pod in a phase, whose deletion was requested at noon unless `grace` is None."""
    found = pod("x", phase=phase)
    if grace is not None:
        deadline = f"2026-01-01T12:00:{abs(grace):02}Z"
        grace = max(grace, 0)
        found["metadata"] |= {"deletionTimestamp": deadline, "deletionGracePeriodSeconds": grace}
    if phase == "Succeeded":
        ended = {"terminated": {"exitCode": 0, "finishedAt": at}}
        found["status"]["containerStatuses"] = [{"name": "di-container", "state": ended}]
    return found


@pytest.mark.parametrize(
    ("stages", "is_kept"),
    [
        ([("Running", 30), ("Succeeded", 30), ("Succeeded", 0)], False),
        ([("Running", 30), ("Succeeded", 0)], False),
        ([("Running", 30), ("Succeeded", 30), ("Succeeded", CONFIRMED)], False),
        ([("Succeeded", None), ("Succeeded", 0)], True),
        ([("Running", 30), ("Succeeded", 30)], False),
        ([("Running", None), ("Succeeded", None)], True),
    ],
    ids=[
        "by SIGTERM",
        "by SIGTERM, seen late",
        "confirmed later",
        "evicted",
        "forced",
        "evicted at once",
    ],
)
def test_a_pod_that_ends_by_its_sigterm_has_not_succeeded(
    kept: DeletedPods, *, stages: list[tuple[str, int | None]], is_kept: bool
) -> None:
    for phase, grace in stages:
        kept.follow("MODIFIED", stage(phase, grace))
    kept.follow("DELETED", stage(*stages[-1]))
    assert names(kept) == (["x"] if is_kept else [])


def test_a_pod_that_is_read_again_after_its_deletion_has_not_succeeded_either(
    kept: DeletedPods,
) -> None:
    kept.follow("MODIFIED", stage("Running", 30))
    kept.follow("DELETED", stage("Succeeded", 0))
    # A create that meets the old pod reads it, and the answer can come after the event.
    kept.follow("ADDED", stage("Succeeded", 0))
    assert names(kept) == []
    kept.follow("DELETED", stage("Succeeded", 0))
    assert names(kept) == []


def test_a_pod_that_had_ended_before_its_deletion_is_kept_though_it_was_seen_running(
    kept: DeletedPods,
) -> None:
    kept.follow("MODIFIED", stage("Running", 30))
    kept.follow("DELETED", stage("Succeeded", 30, at="2026-01-01T11:59:00Z"))
    assert names(kept) == ["x"]


def test_a_pod_that_ends_by_its_sigterm_on_a_node_with_a_slow_clock_has_not_succeeded(
    kept: DeletedPods,
) -> None:
    kept.follow("MODIFIED", stage("Running", 30))
    kept.follow("DELETED", stage("Succeeded", 30, at="2026-01-01T11:59:40Z"))
    assert names(kept) == []


def test_the_memory_is_bounded(kept: DeletedPods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_pods, "MOST_PODS", 3)
    for name in ("x", "y"):
        kept.follow("DELETED", pod(name))
        kept.follow("DELETED", pod(name))
    kept.follow("DELETED", pod("z", job="b"))
    assert (names(kept), names(kept, "b")) == (["x", "y"], ["z"])
    kept.follow("DELETED", pod("w", job="b"))
    assert (names(kept), names(kept, "b")) == ([], ["z", "w"])
