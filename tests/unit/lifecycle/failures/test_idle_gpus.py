"""A job whose GPUs are idle for most of the time."""

from __future__ import annotations

import pytest

from tests.unit.lifecycle.failures.idle_jobs import EVERY, is_idle, reports, training, waits


@pytest.mark.proves("lifecycle.md#idle-gpus", "dijob.md#spec/idlepolicy-gpuidleshare")
def test_gpus_that_are_idle_for_the_whole_window_set_idle() -> None:
    cluster = training(waitingShare=None, gpuIdleShare=95)
    reports(cluster, 540, gpuIdleFrac=0.95)
    assert not is_idle(cluster)
    reports(cluster.wait(EVERY), 0, gpuIdleFrac=0.95)
    condition = cluster.condition("Idle")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "GPUsIdle",
        "the GPUs have been idle for 95 percent of the time or more since 2026-01-01T12:01:00Z, "
        "for longer than 600 seconds",
    )
    assert not is_idle(reports(cluster, 0, gpuIdleFrac=0.94))


def test_gpus_without_a_report_are_not_idle() -> None:
    cluster = training(waitingShare=None, gpuIdleShare=95)
    assert not is_idle(waits(cluster, 1200, share=1.0))


@pytest.mark.proves("lifecycle.md#idle-gpus")
def test_each_of_two_shares_is_enough() -> None:
    cluster = training(gpuIdleShare=95)
    reports(cluster, 300, learnerWaitFrac=0.1, gpuIdleFrac=0.96)
    reports(cluster, 360, learnerWaitFrac=0.9, gpuIdleFrac=0.1)
    assert cluster.condition("Idle")["message"].startswith(
        "the learners have waited for 80 percent of the time or more or the GPUs have been idle "
        "for 95 percent of the time or more since"
    )
    assert not is_idle(reports(cluster, 0, learnerWaitFrac=0.1, gpuIdleFrac=0.1))


def test_an_older_share_of_the_other_kind_does_not_count() -> None:
    cluster = training(gpuIdleShare=95)
    reports(cluster, 0, learnerWaitFrac=0.1, gpuIdleFrac=1.0)
    # From now on the GPUs are not measured any more.
    assert not is_idle(reports(cluster.wait(EVERY), 1200, learnerWaitFrac=0.1))
    assert "idleSince" not in cluster.status
