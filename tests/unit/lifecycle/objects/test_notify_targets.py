"""The condition of a job whose annotation names unknown notification targets."""

from __future__ import annotations

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

KNOWN = frozenset({"chat", "pipeline"})


def cluster_of(notify: str, known: frozenset[str] | None = KNOWN) -> ClusterModel:
    cluster = running(task("learner"))
    cluster.notification_targets = known
    cluster.job["metadata"]["annotations"] = {"diengine/notify": notify}
    return cluster.settle()


def conditions(cluster: ClusterModel) -> list[str]:
    return [each["type"] for each in cluster.status["conditions"]]


def warnings(cluster: ClusterModel) -> list[str]:
    return [each.message for each in cluster.events if each.reason == "NotifyTargetUnknown"]


@pytest.mark.proves("events.md#of-problems/notifytargetunknown")
def test_an_unknown_target_is_reported_once_until_it_is_removed() -> None:
    cluster = cluster_of("chat, hcat").settle()
    found = cluster.condition("NotifyTargetUnknown")
    assert (found["status"], found["reason"]) == ("True", "NoSuchTarget")
    assert found["message"] == (
        "the annotation diengine/notify names 'hcat', which does not exist; "
        "targets of this installation: chat, pipeline"
    )
    assert warnings(cluster) == [found["message"]]
    cluster.job["metadata"]["annotations"]["diengine/notify"] = "chat"
    cluster.settle()
    assert cluster.condition("NotifyTargetUnknown")["status"] == "False"


@pytest.mark.parametrize("notify", ["", "chat", " pipeline,chat ,"])
def test_a_job_without_unknown_targets_gets_no_condition(notify: str) -> None:
    cluster = cluster_of(notify)
    assert "NotifyTargetUnknown" not in conditions(cluster)
    assert warnings(cluster) == []


def test_no_targets_make_all_names_unknown_and_unread_targets_none() -> None:
    told = cluster_of("chat", known=frozenset()).condition("NotifyTargetUnknown")["message"]
    assert told.endswith("targets of this installation: none")
    assert "NotifyTargetUnknown" not in conditions(cluster_of("chat", known=None))


def test_thousands_of_names_make_a_short_message() -> None:
    cluster = cluster_of(",".join(f"{'x' * 100}{number}" for number in range(2000)))
    message = cluster.condition("NotifyTargetUnknown")["message"]
    assert len(message) < 1024
    assert "and 1992 others" in message
    few = cluster_of(",".join(f"{number}" for number in range(8)))
    assert "others" not in few.condition("NotifyTargetUnknown")["message"]


def test_unknown_targets_are_reported_before_pods_run() -> None:
    cluster = ClusterModel(job(task("learner")))
    cluster.notification_targets = KNOWN
    cluster.job["metadata"]["annotations"] = {"diengine/notify": "nobody"}
    cluster.settle()
    assert cluster.condition("NotifyTargetUnknown")["status"] == "True"
