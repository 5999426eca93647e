"""A process group of three members before a real API server, which evicts, deletes and scales."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from di_kube.errors import NotFound
from di_kube.resources import DIJOBS, PODS
from tests.integration.operator.test_disruption_budgets import evict
from tests.integration.operator_testbed import Testbed, condition, job, task, with_testbed

pytestmark = pytest.mark.usefixtures("crd")

LOST, OTHERS = "a-work-1", ("a-work-0", "a-work-2")
EVENTS = ("evict", "evict late", "delete", "force", "fail", "grow", "shrink")


async def start(testbed: Testbed) -> None:
    group = {**task(replicas=3, stop_after="1"), "processGroup": {"framework": "torch"}}
    await testbed.submit(job("a", group, backoffLimit=99))
    await testbed.phase("a", "Running")
    await whole(testbed, {}, 3)


async def befall(testbed: Testbed, event: str) -> None:
    """Let something happen to a member; the others fail, as far as they are not ended before."""
    before = await testbed.pods("a")
    match event:
        case "evict":
            assert await evict(testbed, LOST) == 201
        case "delete":
            await testbed.client.delete(PODS, LOST, testbed.namespace)
        case "force":
            await testbed.client.delete(PODS, LOST, testbed.namespace, grace_period_seconds=0)
        case "fail":
            await testbed.kubelet.finish(testbed.namespace, LOST, 7)
        case "grow":
            await scale(testbed, 4)
        case "shrink":
            await scale(testbed, 2)
        case _:
            assert event == "evict late"
    for name in OTHERS:
        with suppress(NotFound):
            uid = before[name]["metadata"]["uid"]
            await testbed.kubelet.finish(testbed.namespace, name, 1, only=uid)
    if event == "evict late":
        assert await evict(testbed, LOST) == 201


async def scale(testbed: Testbed, replicas: int) -> None:
    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/spec/tasks/0/replicas", "value": replicas}
    ]
    await testbed.client.patch(
        DIJOBS, "a", patch, testbed.namespace, content_type="application/json-patch+json"
    )


async def whole(testbed: Testbed, before: dict[str, str], size: int) -> dict[str, str]:
    """Wait until all members are new ones and have met; returns their UIDs."""

    async def met() -> bool:
        status, pods = await testbed.status("a"), await testbed.pods("a")
        uids = {name: pod["metadata"]["uid"] for name, pod in pods.items()}
        group = (status.get("groups") or {}).get("work") or {}
        return (
            len(uids) == size
            and not set(uids.values()) & set(before.values())
            and status.get("phase") == "Running"
            and group.get("state") == "Formed"
            and set(group["members"].values()) == set(uids.values())
        )

    await testbed.until(met, f"{size} new members to meet")
    return {name: pod["metadata"]["uid"] for name, pod in (await testbed.pods("a")).items()}


async def counts(testbed: Testbed) -> tuple[int, int]:
    status = await testbed.status("a")
    return status["restarts"], status["reschedules"]


# Each further loss of the same pod delays the next one, up to minutes: so few in a row.
@pytest.mark.parametrize(
    ("jobs", "in_a_row"), [(1, 1), pytest.param(5, 2, marks=pytest.mark.extended)]
)
@pytest.mark.parametrize("event", EVENTS)
@with_testbed
async def test_a_group_of_fixed_size_is_replaced_and_counted_as_one(
    testbed: Testbed, event: str, jobs: int, in_a_row: int
) -> None:
    async def no_pods() -> bool:
        return not await testbed.pods("a")

    async with testbed.operator():
        for _ in range(jobs):
            await start(testbed)
            await lose(testbed, event, times=in_a_row)
            await testbed.client.delete(DIJOBS, "a", testbed.namespace)
            await testbed.until(no_pods, "the pods of the deleted job to be gone")


async def lose(testbed: Testbed, event: str, *, times: int) -> None:
    """Let an event befall the group so often, and compare what is counted."""
    size = {"grow": 4, "shrink": 2}.get(event, 3)
    for number in range(1, times + 1):
        before = await whole(testbed, {}, 3)
        await befall(testbed, event)
        after = await whole(testbed, before, size)
        if size != 3:
            await scale(testbed, 3)
            await whole(testbed, after, 3)
        changes = number * (1 if size == 3 else 2)
        assert await counts(testbed) == ((number, 0) if event == "fail" else (0, changes))


@with_testbed
async def test_an_evicted_pod_is_listed_with_the_reason_of_its_condition(
    testbed: Testbed,
) -> None:
    async with testbed.operator():
        await start(testbed)
        await befall(testbed, "evict")
        await testbed.seen("a", "Rescheduling")
        status = await testbed.status("a")
        assert [(each["pod"], each["reason"]) for each in status["failures"]] == [
            (LOST, "EvictionByEvictionAPI")
        ]


@pytest.mark.proves("dijob.md#spec-failurepolicy/onconditions")
@with_testbed
async def test_a_rule_counts_a_pod_that_the_api_server_evicts(testbed: Testbed) -> None:
    rule = {"onConditions": ["DisruptionTarget"], "action": "Restart"}
    async with testbed.operator():
        policy = {"rules": [rule]}
        await testbed.submit(job("a", task(replicas=3, stop_after="1"), failurePolicy=policy))
        await testbed.phase("a", "Running")
        assert await evict(testbed, LOST) == 201
        await testbed.seen("a", "Restarting")
        status = await testbed.phase("a", "Running")
        assert (status["restarts"], status["reschedules"]) == (1, 0)
        said = condition(status, "Restarting")["message"]
        assert f"pod {LOST} failed first: EvictionByEvictionAPI" in said
