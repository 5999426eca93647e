"""idlePolicy before a real API server: a job whose learners wait is suspended, others run on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_api.names import API_VERSION, KIND
from di_api.timestamps import format_time, parse_time
from di_kube.resources import DIJOBS
from tests.integration.operator_testbed import Object, Testbed, condition, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")

_SECONDS = 60
_POLICY = {"waitingShare": 80, "seconds": _SECONDS}


def _job(action: str = "Suspend", **learner: Any) -> Object:
    learner = {**task("learner"), "type": "learner", **learner}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "idle"},
        "spec": {"idlePolicy": {**_POLICY, "action": action}, "tasks": [learner]},
    }


async def _report(testbed: Testbed, share: float, at: datetime) -> None:
    """Write what di-server would, for a report at that time."""
    when = format_time(at)
    status = {
        "profilings": {"learnerWaitFrac": share},
        "progress": {"reportedAt": when, "waitingAt": when},
    }
    await testbed.client.patch(
        DIJOBS, "idle", {"status": status}, testbed.namespace, subresource="status"
    )


async def _window(testbed: Testbed, share: float) -> datetime:
    """Report a share until the window begins; return its beginning."""

    async def begun() -> bool:
        await _report(testbed, share, datetime.now(UTC))
        return "idleSince" in (await testbed.job("idle"))["status"]

    # The reports before the operator knew di-server do not count.
    await testbed.until(begun, "the window to begin")
    found = parse_time((await testbed.job("idle"))["status"]["idleSince"])
    assert found is not None
    return found


async def _runs(testbed: Testbed, job: Object | None = None) -> None:
    await testbed.submit(job or _job())

    async def is_running() -> bool:
        return ((await testbed.job("idle")).get("status") or {}).get("phase") == "Running"

    await testbed.until(is_running, "the job to run")


@pytest.mark.proves("lifecycle.md#idle-jobs", "dijob.md#spec/idlepolicy-action")
@with_testbed
async def test_a_job_whose_learners_wait_is_suspended(testbed: Testbed) -> None:
    async with testbed.operator(suspend_idle_jobs=True):
        await _runs(testbed)
        since = await _window(testbed, 0.9)
        await _report(testbed, 0.9, since + timedelta(seconds=_SECONDS + 1))

        async def is_suspended() -> bool:
            return (await testbed.job("idle"))["spec"].get("suspend") is True

        await testbed.until(is_suspended, "the job to be suspended")
        found = condition((await testbed.job("idle"))["status"], "Idle")
        assert (found["status"], found["reason"]) == ("True", "SuspendedByPolicy")

        async def has_no_pods() -> bool:
            return not (await testbed.job("idle"))["status"].get("readyReplicas")

        await testbed.until(has_no_pods, "its pods to end")


@pytest.mark.proves("lifecycle.md#idle-jobs")
@with_testbed
async def test_a_job_whose_learners_train_meanwhile_is_not_suspended(testbed: Testbed) -> None:
    async with testbed.operator(suspend_idle_jobs=True):
        await _runs(testbed)
        since = await _window(testbed, 0.9)

        async def is_over() -> bool:
            await _report(testbed, 0.3, datetime.now(UTC))
            is_later = datetime.now(UTC) >= since + timedelta(seconds=2)
            return is_later and "idleSince" not in (await testbed.job("idle"))["status"]

        await testbed.until(is_over, "the window to end, and the clock to show another second")
        again = await _window(testbed, 0.9)
        assert again > since
        job = await testbed.job("idle")
        found = {each["type"]: each["status"] for each in job["status"]["conditions"]}
        assert found.get("Idle") != "True"
        assert not job["spec"].get("suspend")


@pytest.mark.proves("lifecycle.md#fewer-learners")
@with_testbed
async def test_a_job_whose_learners_wait_gets_fewer_of_them(testbed: Testbed) -> None:
    async with testbed.operator(scale_down_idle_jobs=True):
        await _runs(testbed, _job("ScaleDown", replicas=3, minReplicas=2))
        before = (await testbed.job("idle"))["spec"]
        since = await _window(testbed, 0.9)
        await _report(testbed, 0.9, since + timedelta(seconds=_SECONDS + 1))

        async def is_scaled() -> bool:
            return bool((await testbed.job("idle"))["spec"]["tasks"][0]["replicas"] == 2)

        await testbed.until(is_scaled, "the job to be scaled down")

        async def has_one_pod_less() -> bool:
            status = (await testbed.job("idle"))["status"]
            return bool(status["phase"] == "Running" and status.get("readyReplicas") == 2)

        await testbed.until(has_one_pod_less, "a pod of it to end")
        (learner,) = before["tasks"]
        after = (await testbed.job("idle"))["spec"]
        assert after == {**before, "tasks": [{**learner, "replicas": 2}]}
