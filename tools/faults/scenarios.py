"""Named faults, as people meet them; the table in README.md says which holds which."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import aiohttp

from di_kube.resources import DIJOBS, PODS
from tests.fakes.kubelet import FakeKubelet
from tests.integration.operator_testbed import job, task
from tools.faults.plan import ANY, NEXT, Fault, Hold, Kill, Notice, Refuse, Request, Rewind, Slow
from tools.faults.scene import Scene
from tools.faults.stage import is_in, runs
from tools.faults.testbed import Object

Story: TypeAlias = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A story and what goes wrong in it."""

    story: Story
    faults: Sequence[Fault]


SCENARIOS: dict[str, Scenario] = {}


def scenario(*, faults: Sequence[Fault] = ()) -> Callable[[Story], Story]:
    """Make a story a test of its name."""

    def enter(story: Story) -> Story:
        SCENARIOS[story.__name__] = Scenario(story=story, faults=faults)
        return story

    return enter


_WRITES = [
    Request(verb="create", what="services", name="di-a"),
    Request(verb="create", what="pods", name="a-work-0"),
    Request(verb="create", what="pods", name="a-work-2"),
    Request(verb="update", what="dijobs/status", name="a", nth=1),
    Request(verb="update", what="dijobs/status", name="a", nth=2),
    Request(verb="update", what="dijobs/status", name="a", nth=3),
    Request(verb="delete", what="pods", name="a-work-1"),
]
_KILLS = [Fault(at=at, do=Kill(answered=bool(n % 2))) for n, at in enumerate(_WRITES)]


@scenario(faults=_KILLS)
async def an_operator_killed_at_every_second_write_makes_each_pod_once(stage: Scene) -> None:
    """Plans of the rule "intermediate" kill once a run, at every write; this kills on and on."""
    await stage.submit(job("a", task("work", 3)))
    await stage.reached("Running", runs(3))
    assert set(stage.created().values()) == {1}
    await stage.fail("a-work-1")
    await stage.reached("Running again", runs(3, restarts=1))
    assert stage.created() == {"a-work-0": 1, "a-work-1": 2, "a-work-2": 1}
    assert (stage.status["restarts"], stage.status["reschedules"]) == (1, 0)
    assert len(stage.replicas[0].proxy.journal.met) == len(_KILLS)


_PAST = Rewind(what=("dijobs", "pods", "services"), back=6, seconds=2.0)
_NEXT_POLL = Request(verb="list", what="dijobs", name="", nth=NEXT)


@scenario()
async def lists_from_before_a_job_was_made_again_delete_no_new_pod(
    stage: Scene,
) -> None:
    await stage.submit(job("a", task("work", 2)))
    await stage.reached("Running", runs(2))
    await stage.delete()
    await stage.until("the job to be gone", lambda: stage.job() is None)
    await stage.submit(job("a", task("work", 2)))
    await stage.reached("Running", runs(2))
    new = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    replica = stage.replicas[0]
    lives = replica.component.log.count("caches filled")
    replica.proxy.add(Fault(at=_NEXT_POLL, do=Kill(answered=True, rewind=_PAST)))
    await stage.until(
        "a restart into the _PAST",
        lambda: replica.component.log.count("caches filled") > lives,
    )
    await stage.patch({"backoffLimit": 5})
    await asyncio.sleep(_PAST.seconds + 1)
    assert {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()} == new
    assert stage.created() == {"a-work-0": 2, "a-work-1": 2}
    assert stage.status["phase"] == "Running"


_HELD = Fault(
    at=Notice(what="pods", kind="MODIFIED", name="a-work-0", nth=NEXT), do=Hold(4.0, whole=True)
)


@scenario()
async def events_held_over_a_failure_and_two_scalings_lead_to_the_last_scale(
    stage: Scene,
) -> None:
    await stage.submit(job("a", task("work", 4)))
    await stage.reached("Running", runs(4))
    stage.replicas[0].proxy.add(_HELD)
    await stage.fail("a-work-0")
    await stage.testbed.client.delete(PODS, "a-work-0", stage.namespace)
    await stage.patch({"tasks": [task("work", 8)]})
    await asyncio.sleep(0.5)
    await stage.patch({"tasks": [task("work", 4)]})
    await stage.reached(
        "Running with 4",
        lambda status: runs(4)(status) and status["reschedules"] + status["restarts"] > 0,
    )
    wanted = {f"a-work-{index}" for index in range(4)}
    await stage.until("its surplus pods to be gone", lambda: stage.pods().keys() == wanted)
    # Deleted while nobody could see it fail: one of the two, never both.
    assert stage.status["restarts"] <= 1
    assert stage.created()["a-work-0"] == 2
    assert all(stage.created()[f"a-work-{index}"] == 1 for index in (1, 2, 3))


_FIRST_STATUS = Request(verb="update", what="dijobs/status", name="a", nth=1)
_CONFLICTS = Fault(at=_FIRST_STATUS, do=Refuse(409), seconds=30.0)


@scenario(faults=[_CONFLICTS])
async def a_status_that_conflicts_for_30_seconds_is_written_afterwards(stage: Scene) -> None:
    await stage.submit(job("a", task("work", 2)))
    # Another writer in the middle of it.
    profilings = {"status": {"profilings": {"episodes": 3}}}
    await stage.testbed.client.patch(DIJOBS, "a", profilings, stage.namespace, subresource="status")
    await stage.reached("Running", runs(2))
    assert set(stage.created().values()) == {1}
    assert stage.status["profilings"] == {"episodes": 3}
    patches = [one for one in stage.requests() if one.request.what == "dijobs/status"]
    # Five tries a reconcile, and the pause between reconciles doubles.
    assert len(patches) < 150


_OUTAGE = 25.0
_ANSWERS: list[Refuse | Slow] = [
    Refuse(429, 2),
    Refuse(500),
    Refuse(503, 1),
    Refuse(504),
    Slow(12.0),
]
_STORM = [
    Fault(at=Request(verb=verb, what=ANY, name=ANY, nth=NEXT), do=do, seconds=_OUTAGE)
    for verb, do in zip(("update", "list", "watch", "get", "patch"), _ANSWERS, strict=True)
]


@scenario()
async def errors_of_the_api_server_for_longer_than_a_lease_are_waited_out(
    stage: Scene,
) -> None:
    await stage.submit(job("a", task("work", 2)))
    await stage.reached("Running", runs(2))
    proxy = stage.replicas[0].proxy
    proxy.cut()
    for fault in _STORM:
        proxy.add(fault)
    ends = time.monotonic() + _OUTAGE
    await stage.submit(job("b", task("work", 2)))
    base = f"http://{stage.replicas[0].health}"
    not_ready = 0
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < ends:
            try:
                async with session.get(f"{base}/healthz") as answer:
                    assert answer.status == 200
                async with session.get(f"{base}/readyz") as answer:
                    not_ready += answer.status == 503
            except aiohttp.ClientConnectionError:
                pass  # It ended, for it could not renew its lease, and is started again.
            await asyncio.sleep(0.5)
    assert not_ready
    await stage.until(
        "the other job to run",
        lambda: (
            (stage.testbed.jobs.get(stage.namespace, "b") or {}).get("status", {}).get("phase")
            == "Running"
        ),
    )
    assert set(stage.created().values()) == {1}
    assert (stage.status["restarts"], stage.status["reschedules"]) == (0, 0)


_OWN = "tests/own-node"


@scenario()
async def a_pod_of_a_lost_node_is_replaced_and_not_counted_as_a_failure(stage: Scene) -> None:
    client = stage.testbed.client
    async with FakeKubelet(client, namespace=stage.namespace, taint=_OWN) as lost:
        await stage.submit(job("a", pinned(lost.node)))
        await stage.reached("Running", runs(1))
        lost.vanish()
        await stage.until(
            "its pod to be deleted by the node controller",
            lambda: "deletionTimestamp" in stage.pods()["a-work-0"]["metadata"],
        )
        first = stage.pods()["a-work-0"]["metadata"]["uid"]
        await stage.until(
            "its pod to be replaced",
            lambda: (
                stage.pods().get("a-work-0", {}).get("metadata", {}).get("uid") not in (None, first)
            ),
        )
    async with FakeKubelet(client, namespace=stage.namespace, node=lost.node, taint=_OWN):
        await stage.reached("Running again", runs(1))
    assert (stage.status["restarts"], stage.status["reschedules"]) == (0, 1)
    assert stage.created() == {"a-work-0": 2}


def pinned(node: str) -> Object:
    """A task for one node, whose pods do not outlive it for long."""
    body = task("work", 1)
    body["template"]["spec"] |= {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists"}
            | {"effect": "NoExecute", "tolerationSeconds": 1}
            for key in ("not-ready", "unreachable")
        ]
        + [{"key": _OWN, "operator": "Exists"}],
    }
    return body


@scenario()
async def an_evicted_pod_comes_back_under_its_name_and_rank(stage: Scene) -> None:
    await stage.submit(job("a", task("work", 2, stop_after="0.2")))
    await stage.reached("Running", runs(2))
    before = stage.pods()["a-work-1"]["metadata"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "a-work-1", "namespace": stage.namespace},
    }
    await stage.testbed.client.create(PODS, eviction, stage.namespace, subresource="eviction")
    await stage.until(
        "another pod of its name",
        lambda: stage.created()["a-work-1"] == 2,
    )
    await stage.reached(
        "Running again", lambda status: runs(2)(status) and status.get("reschedules", 0) > 0
    )
    after = stage.pods()["a-work-1"]["metadata"]
    assert after["uid"] != before["uid"]
    assert after["annotations"]["diengine/rank"] == before["annotations"]["diengine/rank"]
    assert (stage.status["restarts"], stage.status["reschedules"]) == (0, 1)


@scenario()
async def pods_of_a_suspended_job_end_with_their_own_grace_period(stage: Scene) -> None:
    # Long enough to be seen, and less than the grace period.
    body = task("work", 2, stop_after="20")
    body["template"]["spec"]["terminationGracePeriodSeconds"] = 47
    await stage.submit(job("a", body))
    await stage.reached("Running", runs(2))
    await stage.patch({"suspend": True})
    await stage.until(
        "its pods to be deleted with their own grace period",
        lambda: (
            [p["metadata"].get("deletionGracePeriodSeconds") for p in stage.pods().values()]
            == [47, 47]
        ),
    )
    await stage.reached("Pending", is_in("Pending"))
    await stage.until("their handlers to have run to the end", lambda: not stage.pods())
