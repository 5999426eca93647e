"""Succeeded pods are kept after their deletion until their job has counted them."""

from __future__ import annotations

from typing import Any

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
        ("DELETED", {**pod("x"), "metadata": {"name": "x", "namespace": NAMESPACE}}),
    ],
)
def test_no_other_pod_is_kept(kept: DeletedPods, kind: str, body: dict[str, Any]) -> None:
    kept.follow(kind, body)
    assert [names(kept, job) for job in ("a", "ended", "gone", "of-an-earlier-job")] == [[]] * 4


def test_the_memory_is_bounded(kept: DeletedPods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_pods, "MOST_PODS", 3)
    for name in ("x", "y"):
        kept.follow("DELETED", pod(name))
        kept.follow("DELETED", pod(name))
    kept.follow("DELETED", pod("z", job="b"))
    assert (names(kept), names(kept, "b")) == (["x", "y"], ["z"])
    kept.follow("DELETED", pod("w", job="b"))
    assert (names(kept), names(kept, "b")) == ([], ["z", "w"])
