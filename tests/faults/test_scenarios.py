"""Named faults, as people meet them; the table in README.md says which test holds which."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp

from di_api.kube.config import KubeConfig
from di_api.kube.resources import DIJOBS, PODS
from tests.fakes.kubelet import FakeKubelet
from tests.faults.footprint import complaints
from tests.faults.ground import Object, prepared
from tests.faults.plan import ANY, NEXT, Fault, Hold, Kill, Notice, Refuse, Request, Rewind, Slow
from tests.faults.scene import Scene, scene
from tests.faults.workloads import is_in, runs
from tests.integration.operator_field import job, task


def play(
    server: KubeConfig,
    folder: Path,
    story: Callable[[Scene], Awaitable[None]],
    *,
    faults: Sequence[Fault] = (),
    replicas: int = 1,
) -> None:
    """Play a story on a scene; whatever happens in it, no log may hold a traceback."""

    async def main() -> None:
        async with (
            prepared(server, folder / "runs") as ground,
            scene(ground, faults=faults, replicas=replicas, title=story.__qualname__) as stage,
        ):
            await story(stage)
        assert not list(complaints(stage.logs))

    asyncio.run(main())


def created_once(stage: Scene, *pods: str) -> None:
    assert stage.created() == dict.fromkeys(pods, 1)


def test_01_killed_at_every_second_write_a_job_still_gets_each_pod_once(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    """Plans of the rule "intermediate" kill once a run, at every write; this kills on and on."""
    writes = [
        Request(verb="create", what="services", name="di-a"),
        Request(verb="create", what="pods", name="a-work-0"),
        Request(verb="create", what="pods", name="a-work-2"),
        Request(verb="patch", what="dijobs/status", name="a", nth=1),
        Request(verb="patch", what="dijobs/status", name="a", nth=2),
        Request(verb="patch", what="dijobs/status", name="a", nth=3),
        Request(verb="delete", what="pods", name="a-work-1"),
    ]
    faults = [Fault(at=at, do=Kill(answered=bool(n % 2))) for n, at in enumerate(writes)]

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", 3)))
        await stage.reached("Running", runs(3))
        created_once(stage, "a-work-0", "a-work-1", "a-work-2")
        await stage.fail("a-work-1")
        await stage.reached("Running again", runs(3, restarts=1))
        assert stage.created() == {"a-work-0": 1, "a-work-1": 2, "a-work-2": 1}
        assert (stage.status["restarts"], stage.status["reschedules"]) == (1, 0)
        assert len(stage.replicas[0].proxy.journal.met) == len(faults)

    play(fault_server, fault_folder, story, faults=faults)


def test_02_an_operator_shown_the_world_before_a_job_was_made_again_deletes_no_new_pod(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    past = Rewind(what=("dijobs", "pods", "services"), back=6, seconds=2.0)
    at_the_next_poll = Request(verb="list", what="dijobs", name="", nth=NEXT)

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", 2)))
        await stage.reached("Running", runs(2))
        await stage.delete()
        await stage.until("the job to be gone", lambda: stage.job() is None)
        await stage.submit(job("a", task("work", 2)))
        await stage.reached("Running", runs(2))
        new = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
        replica = stage.replicas[0]
        lives = replica.component.log.count("caches filled")
        replica.proxy.add(Fault(at=at_the_next_poll, do=Kill(answered=True, rewind=past)))
        await stage.until(
            "a restart into the past",
            lambda: replica.component.log.count("caches filled") > lives,
        )
        await stage.patch({"backoffLimit": 5})
        await asyncio.sleep(past.seconds + 1)
        assert {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()} == new
        assert stage.created() == {"a-work-0": 2, "a-work-1": 2}
        assert stage.status["phase"] == "Running"

    play(fault_server, fault_folder, story)


def test_05_events_held_over_a_failure_and_two_changes_of_scale_lead_to_the_final_state(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    held = Fault(
        at=Notice(what="pods", kind="MODIFIED", name="a-work-0", nth=NEXT), do=Hold(4.0, whole=True)
    )

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", 4)))
        await stage.reached("Running", runs(4))
        stage.replicas[0].proxy.add(held)
        await stage.fail("a-work-0")
        await stage.ground.client.delete(PODS, "a-work-0", stage.namespace)
        await stage.patch({"tasks": [task("work", 8)]})
        await asyncio.sleep(0.5)
        await stage.patch({"tasks": [task("work", 4)]})
        await stage.reached(
            "Running with 4",
            lambda status: runs(4)(status) and status["reschedules"] + status["restarts"] > 0,
        )
        await stage.until("its surplus pods to be gone", lambda: len(stage.pods()) == 4)
        # Deleted while nobody could see it fail: one of the two, never both.
        assert stage.status["restarts"] <= 1
        assert stage.created()["a-work-0"] == 2
        assert all(stage.created()[f"a-work-{index}"] == 1 for index in (1, 2, 3))

    play(fault_server, fault_folder, story)


def test_06_conflicts_on_every_status_write_for_30_seconds_end_well(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    at = Request(verb="patch", what="dijobs/status", name="a", nth=1)
    conflicts = Fault(at=at, do=Refuse(409), seconds=30.0)

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", 2)))
        # Another writer in the middle of it.
        profilings = {"status": {"profilings": {"episodes": 3}}}
        await stage.ground.client.patch(
            DIJOBS, "a", profilings, stage.namespace, subresource="status"
        )
        await stage.reached("Running", runs(2), 60)
        created_once(stage, "a-work-0", "a-work-1")
        assert stage.status["profilings"] == {"episodes": 3}
        patches = [one for one in stage.requests() if one.request.what == "dijobs/status"]
        # Five tries a reconcile, and the pause between reconciles doubles.
        assert len(patches) < 150

    play(fault_server, fault_folder, story, faults=[conflicts])


def test_07_an_api_server_that_answers_errors_for_longer_than_the_lease_is_waited_out(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    seconds = 45.0
    kinds: list[Refuse | Slow] = [
        Refuse(429, 2),
        Refuse(500),
        Refuse(503, 1),
        Refuse(504),
        Slow(12.0),
    ]
    storm = [
        Fault(at=Request(verb=verb, what=ANY, name=ANY, nth=NEXT), do=do, seconds=seconds)
        for verb, do in zip(("update", "list", "watch", "get", "patch"), kinds, strict=True)
    ]

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", 2)))
        await stage.reached("Running", runs(2))
        proxy = stage.replicas[0].proxy
        proxy.cut()
        for fault in storm:
            proxy.add(fault)
        ends = time.monotonic() + seconds
        await stage.submit(job("b", task("work", 2)))
        base = f"http://127.0.0.1:{stage.replicas[0].health}"
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
                (stage.ground.jobs.get(stage.namespace, "b") or {}).get("status", {}).get("phase")
                == "Running"
            ),
            30,
        )
        assert set(stage.created().values()) == {1}
        assert (stage.status["restarts"], stage.status["reschedules"]) == (0, 0)

    play(fault_server, fault_folder, story)


def test_09_a_lost_nodes_pod_is_replaced_and_not_counted_as_a_failure(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    async def story(stage: Scene) -> None:
        client = stage.ground.client
        async with FakeKubelet(client, namespace=stage.namespace) as lost:
            await stage.submit(job("a", pinned(lost.node)))
            await stage.reached("Running", runs(1))
            lost.vanish()
            await stage.until(
                "its pod to be deleted by the node controller",
                lambda: "deletionTimestamp" in stage.pods()["a-work-0"]["metadata"],
                60,
            )
            first = stage.pods()["a-work-0"]["metadata"]["uid"]
            await stage.until(
                "its pod to be replaced",
                lambda: (
                    stage.pods().get("a-work-0", {}).get("metadata", {}).get("uid")
                    not in (None, first)
                ),
                90,
            )
        async with FakeKubelet(client, namespace=stage.namespace, node=lost.node):
            await stage.reached("Running again", runs(1), 60)
        assert (stage.status["restarts"], stage.status["reschedules"]) == (0, 1)
        assert stage.created() == {"a-work-0": 2}

    play(fault_server, fault_folder, story)


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
        ],
    }
    return body


def test_10_a_pod_that_is_evicted_comes_back_under_its_name_and_rank(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", 2, stop_after="0.2")))
        await stage.reached("Running", runs(2))
        before = stage.pods()["a-work-1"]["metadata"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "a-work-1", "namespace": stage.namespace},
        }
        await stage.ground.client.create(PODS, eviction, stage.namespace, subresource="eviction")
        await stage.until(
            "another pod of its name",
            lambda: stage.created()["a-work-1"] == 2,
        )
        await stage.reached("Running", runs(2))
        after = stage.pods()["a-work-1"]["metadata"]
        assert after["uid"] != before["uid"]
        assert after["annotations"]["diengine/rank"] == before["annotations"]["diengine/rank"]
        assert (stage.status["restarts"], stage.status["reschedules"]) == (0, 1)

    play(fault_server, fault_folder, story)


def test_16_a_job_of_1000_replicas_lets_others_through_and_leaves_no_orphan(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    large = 1000

    async def story(stage: Scene) -> None:
        await stage.submit(job("a", task("work", large)))
        await stage.until("some of its pods", lambda: len(stage.pods()) > large // 20)
        await stage.submit(job("b", task("work", 2)))
        await stage.until(
            "the small job's pods", lambda: {"b-work-0", "b-work-1"} <= set(stage.pods())
        )
        assert len(stage.pods()) < large
        await stage.reached("Running", runs(large), 180)
        assert len(stage.created()) == large + 2
        assert set(stage.created().values()) == {1}
        await stage.delete()
        await stage.until("nothing of it to be left", lambda: len(stage.pods()) == 2, 120)

    play(fault_server, fault_folder, story)


def test_25_pods_of_a_suspended_job_have_their_own_grace_period(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    async def story(stage: Scene) -> None:
        body = task("work", 2, stop_after="1.5")
        body["template"]["spec"]["terminationGracePeriodSeconds"] = 47
        await stage.submit(job("a", body))
        await stage.reached("Running", runs(2))
        await stage.patch({"suspend": True})
        await stage.reached("Pending", is_in("Pending"))
        await stage.until(
            "its pods to be deleted",
            lambda: all("deletionTimestamp" in p["metadata"] for p in stage.pods().values()),
        )
        graces = [p["metadata"]["deletionGracePeriodSeconds"] for p in stage.pods().values()]
        assert graces == [47, 47]
        await stage.until("their handlers to have run to the end", lambda: not stage.pods())

    play(fault_server, fault_folder, story)
