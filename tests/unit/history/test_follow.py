"""Following a fake API server: unreadable objects, outages and lost records."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, replace
from typing import Any, TypeVar

import pytest

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_history import follow as module
from di_history.changes.jobs import job_changes
from di_history.changes.snapshot import snapshot_of
from di_history.follow import Follower, Known
from di_history.metrics import Metrics
from di_history.node_kinds import NodeKinds
from di_history.packing import pack, to_json
from di_history.records import (
    Entry,
    EntryKind,
    JobGone,
    JobSeen,
    Millis,
    Placement,
    Put,
    Record,
)
from di_history.subjects import BURST_BYTES, Budgets, Early
from di_history.waiting import weight
from di_kube.config import KubeConfig
from tests.fakes.api_server import StandIn
from tests.integration.history_records import placement
from tests.unit.history.jobs import NOON, event, job, pod
from tests.waiting import wait_until_async

JOBS = "/apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs"
EVENTS = "/api/v1/namespaces/rl/events"
T = TypeVar("T")
NOTHING = Known(jobs={}, placed=(), followed=None)


def follower(
    server: StandIn,
    put: Put,
    metrics: Metrics,
    *,
    price_label: str = "",
    lost: Callable[[int], list[str]] = lambda _: [],
    resume: Callable[[Iterable[str]], None] = lambda _: None,
    recall: Callable[[Collection[str]], Known] = lambda _: NOTHING,
    **known: Any,
) -> Follower:
    return Follower(
        config=KubeConfig(server=server.url),
        namespace="rl",
        known=Known(**{"jobs": {}, "placed": (), "followed": None, **known}),
        put=put,
        lost=lost,
        resume=resume,
        recall=recall,
        has_log=lambda _: True,
        price_label=price_label,
        log_bytes=1000,
        uploads=lambda: None,
        metrics=metrics,
        now=lambda: NOON + 1000,
        clock=time.monotonic,
        rng=random.Random(1),
    )


def until(
    server: StandIn, enough: Callable[[list[Record], Follower], bool], **known: Any
) -> tuple[list[Record], Metrics]:
    """Follow until there is enough."""
    records: list[Record] = []
    metrics = Metrics()

    async def run() -> None:
        followed = follower(
            server, lambda _namespace, found: records.extend(found), metrics, **known
        )
        task = asyncio.create_task(followed.run())

        async def is_enough() -> bool:
            return enough(records, followed)

        await wait_until_async(is_enough, what="enough")
        task.cancel()

    asyncio.run(run())
    return records, metrics


@pytest.mark.proves("metrics.md#history/di-history-unreadable-objects-total")
def test_an_unreadable_object_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def changes(before: Any, after: Any, seen: Millis) -> list[Record]:
        if after["metadata"]["name"] == "bad":
            raise ValueError("bad")
        return job_changes(before, after, seen)

    monkeypatch.setattr("di_history.follow.job_changes", changes)
    with StandIn() as server:
        for name in ("bad", "good"):
            server.put(f"{JOBS}/{name}", job(name=name, uid=f"uid-{name}"))
        records, metrics = until(server, lambda found, _: bool(found))
    assert {each.name for each in records if isinstance(each, JobSeen)} == {"good"}
    assert metrics.registry.get_sample_value("di_history_unreadable_objects_total") == 1


def test_an_event_that_comes_before_its_job_is_kept() -> None:
    with StandIn() as server:
        about = event(about="uid-late")
        server.put(f"{EVENTS}/e", {**about, "metadata": {**about["metadata"], "name": "e"}})

        def told(found: list[Record], _: Follower) -> bool:
            listed = [path for _, path, _ in server.requests if "kind%3DDIJob" in path]
            if any("watch=" in path for path in listed) and f"{JOBS}/late" not in server.objects:
                assert found == []
                server.put(f"{JOBS}/late", job(name="late", uid="uid-late"), "ADDED")
            return any(isinstance(each, Entry) and each.kind is EntryKind.EVENT for each in found)

        records, _ = until(server, told)
    assert [each.job for each in records if isinstance(each, Entry)] == ["uid-late"]


class NothingEarly(Early[T]):
    """Keeps nothing of what comes before its subject."""

    def __init__(self) -> None:
        super().__init__(most=0)


def test_no_pod_is_lost_while_jobs_are_slow_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("di_history.follow.Early", NothingEarly)
    with StandIn() as server:
        server.put(f"{JOBS}/x", job(uid="uid-x"))
        found = pod(uid="pod-x", name="pod-x", owner="uid-x")
        found["metadata"]["labels"] |= {LABEL_OPERATOR: OPERATOR_NAME}
        server.put("/api/v1/namespaces/rl/pods/pod-x", found)
        server.refusals["GET", JOBS] = {"code": 500, "reason": "InternalError", "message": "slow"}

        def is_kept(records: list[Record], _: Follower) -> bool:
            if len([path for _, path, _ in server.requests if path.startswith(JOBS)]) > 3:
                server.refusals.clear()
            return any(isinstance(each, Placement) for each in records)

        until(server, is_kept)


def test_a_deletion_during_an_outage_is_recorded() -> None:
    kept = pack(to_json(snapshot_of(job(uid="uid-gone"))))
    with StandIn() as server:
        records, _ = until(
            server, lambda found, _: bool(found), jobs={"uid-gone": kept}, followed=NOON
        )
    gone, entry = records
    assert gone == JobGone(uid="uid-gone", at=NOON + 1000)
    assert isinstance(entry, Entry)
    assert entry.data == {"after": NOON}


@pytest.mark.proves("history.md#gaps/gap")
def test_jobs_that_lost_records_are_compared_with_what_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One has changed since, one was deleted, and one is not stored; pods are compared too."""
    monkeypatch.setattr(module, "_FILL_IN_SECONDS", 0.01)
    stored = {
        uid: pack(to_json(snapshot_of(job(name=uid, uid=uid, version=0)))) for uid in ("a", "gone")
    }
    placed = [
        asdict(replace(placement(name, since=NOON), job="a")) for name in ("pod-gone", "pod-a")
    ]
    asked: list[Collection[str]] = []
    resumed: list[str] = []

    def recall(uids: Collection[str]) -> Known:
        asked.append(uids)
        return Known(jobs=stored, placed=placed, followed=NOON - 1)

    with StandIn() as server:
        for uid in ("a", "new", "other"):
            server.put(f"{JOBS}/{uid}", job(name=uid, uid=uid))
        found = pod(uid="pod-a", name="pod-a", owner="a")
        found["metadata"]["labels"] |= {LABEL_OPERATOR: OPERATOR_NAME}
        server.put("/api/v1/namespaces/rl/pods/pod-a", found)
        records, _ = until(
            server,
            lambda _, followed: followed.followed() is not None and bool(resumed),
            lost=lambda _: [] if resumed else ["a", "gone", "new"],
            resume=resumed.extend,
            recall=recall,
        )
    assert asked == [["a", "gone", "new"]]
    again = records[[each.uid for each in records if isinstance(each, JobSeen)].index("a") :]
    entries = [each for each in again if isinstance(each, Entry)]
    assert [(each.job, each.data["from"]) for each in entries if each.kind is EntryKind.GAP] == [
        ("a", NOON - 1)
    ]
    assert JobGone(uid="gone", at=NOON + 1000) in again
    assert [each.uid for each in again if isinstance(each, JobSeen)].count("new") == 2
    assert [each.uid for each in again if isinstance(each, JobSeen)].count("other") == 1
    ends = {each.pod_uid: each.outcome for each in again if isinstance(each, Placement)}
    assert ends == {"pod-a": "Running", "pod-gone": "Deleted"}


def test_before_the_first_lists_nothing_is_followed() -> None:
    with StandIn() as server:
        assert follower(server, lambda _namespace, _found: None, Metrics()).followed() is None


def kept_entries(records: Iterable[Record]) -> list[Entry]:
    return [each for each in records if isinstance(each, Entry) and each.kind is EntryKind.EVENT]


@pytest.mark.proves("history.md#what-is-kept/conditions-events")
def test_an_event_of_another_namespace_is_not_recorded() -> None:
    """Anyone who may create Events somewhere can name any UID in them."""
    with StandIn() as server:
        server.put(f"{JOBS}/x", job(uid="uid-x"))
        for namespace, message in (("other", "forged"), ("rl", "own")):
            found = event(about="uid-x", namespace=namespace, uid=namespace, message=message)
            found["metadata"]["name"] = namespace
            server.put(f"{EVENTS}/{namespace}", found)
        records, _ = until(server, lambda found, _: bool(kept_entries(found)))
    assert [each.data["message"] for each in kept_entries(records)] == ["own"]


def test_a_pod_of_another_namespace_is_not_recorded() -> None:
    """An owner reference may name any UID, until the garbage collector deletes the pod."""
    with StandIn() as server:
        server.put(f"{JOBS}/x", job(uid="uid-x"))
        for namespace in ("other", "rl"):
            found = pod(uid=f"pod-{namespace}", name=f"pod-{namespace}", owner="uid-x")
            found["metadata"] |= {"namespace": namespace}
            found["metadata"]["labels"] |= {LABEL_OPERATOR: OPERATOR_NAME}
            server.put(f"/api/v1/namespaces/rl/pods/pod-{namespace}", found)
        records, _ = until(
            server, lambda found, _: any(isinstance(each, Placement) for each in found)
        )
    assert {each.pod for each in records if isinstance(each, Placement)} == {"pod-rl"}


@pytest.mark.proves(
    "history.md#what-is-kept/conditions-events",
    "history.md#shares/events",
    "metrics.md#history/di-history-events-left-out-total",
)
def test_events_past_a_subjects_bound_are_left_out_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "di_history.follow.Budgets", lambda *, clock: Budgets(clock=lambda: 0.0 * clock())
    )
    with StandIn() as server:
        server.put(f"{JOBS}/x", job(uid="uid-x"))
        for number in range(600):
            one = event(about="uid-x", uid=f"e{number}", message="m" * 5000)
            one["metadata"]["name"] = f"e{number}"
            server.put(f"{EVENTS}/e{number}", one)
        records, metrics = until(
            server,
            lambda found, _: any(each.key.startswith("left-out/") for each in kept_entries(found)),
        )
    found = kept_entries(records)
    assert sum(map(weight, found)) <= BURST_BYTES + 2000
    assert max(len(each.data["message"]) for each in found) == 1024
    assert metrics.registry.get_sample_value("di_history_events_left_out_total")


@pytest.mark.proves("history.md#prices")
def test_a_placement_has_the_price_label_of_its_node() -> None:
    def node(name: str, value: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "uid": name, "labels": {"gpu": value, "other": "x"}}}

    with StandIn() as server:
        server.put("/api/v1/nodes/gpu-1", node("gpu-1", "a100"))
        server.put(f"{JOBS}/x", job(uid="uid-x"))
        found = pod(uid="pod-x", name="pod-x", owner="uid-x", node="gpu-1")
        found["metadata"]["labels"][LABEL_OPERATOR] = OPERATOR_NAME
        server.put("/api/v1/namespaces/rl/pods/pod-x", found)

        def is_placed(found: list[Record], _: Follower) -> bool:
            return any(isinstance(each, Placement) for each in found)

        records, _ = until(server, is_placed, price_label="gpu")
        requested = [path for _, path, _ in server.requests if "/nodes" in path]
        without, _ = until(server, is_placed)
    assert [each.kind for each in records if isinstance(each, Placement)] == ["a100"]
    assert requested
    assert [each.kind for each in without if isinstance(each, Placement)] == [""]
    again = [path for _, path, _ in server.requests if "/nodes" in path]
    assert again == requested


def test_a_deleted_node_keeps_its_price_label() -> None:
    kinds = NodeKinds("gpu")
    node = {"metadata": {"name": "n1", "labels": {"gpu": "a100"}}}
    kinds.on_node("ADDED", node)
    kinds.on_node("DELETED", {"metadata": {"name": "n1", "labels": {"gpu": "old"}}})
    kinds.remember("n2", "h100")
    kinds.remember("n2", "")
    placed = [placement("a", 0), replace(placement("b", 0), node="n2")]
    assert [each.kind for each in kinds.added(placed)] == ["a100", "h100"]
    assert [each.kind for each in NodeKinds("").added(placed)] == ["", ""]
