"""Two replicas: who writes when, as the API server's own audit log has it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path

from di_api.kube.config import KubeConfig
from di_operator.claim import LEASE_NAME
from tests.integration.operator_testbed import job, task
from tools.faults.scene import Scene
from tools.faults.session import audit_log, play
from tools.faults.stage import runs

LEASE = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write as the API server saw it; ``at`` in seconds of the epoch."""

    replica: str
    what: str
    at: float


def writes(folder: Path, namespace: str) -> list[Write]:
    """Read the writes of a namespace's operators to anything but events, in order.

    Without the claim on the jobs, which leaders and standbys renew alike.
    """
    found = []
    for line in audit_log(folder).read_text().splitlines():
        entry = json.loads(line)
        reference = entry.get("objectRef") or {}
        agent = str(entry.get("userAgent", ""))
        if reference.get("namespace") != namespace or not agent.startswith(f"{namespace}-"):
            continue
        if reference.get("name") == LEASE_NAME:
            continue
        if reference["resource"] != "events" and entry["responseStatus"]["code"] < 300:
            at = datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
            replica = agent.removeprefix(f"{namespace}-")
            found.append(Write(replica=replica, what=reference["resource"], at=at))
    return sorted(found, key=lambda write: write.at)


def terms(found: list[Write]) -> list[str]:
    """Name the writers one after another; one that comes back after another appears twice."""
    return [replica for replica, _ in groupby(write.replica for write in found)]


def test_a_standby_succeeds_a_leader_that_crashed_after_its_lease(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    namespaces: list[str] = []

    async def story(stage: Scene) -> None:
        namespaces.append(stage.namespace)
        await stage.submit(job("a", task("work", 2)))
        await stage.reached("Running", runs(2))
        await stage.standbys_wait()
        leader = stage.replicas[0]
        leader.retire()
        leader.component.signal(signal.SIGKILL)
        await stage.patch({"tasks": [task("work", 3)]})
        await stage.reached("Running with 3", runs(3))
        assert set(stage.created().values()) == {1}

    play(fault_server, fault_folder, story, replicas=2)
    found = writes(fault_folder, namespaces[0])
    assert terms(found) == ["replica-0", "replica-1"]
    first = next(write.at for write in found if write.replica == "replica-1")
    last = max(w.at for w in found if w.replica == "replica-0" and w.what == "leases")
    assert first - last >= LEASE


def test_a_leader_that_is_stopped_gives_its_lease_back_at_last(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    namespaces: list[str] = []

    async def story(stage: Scene) -> None:
        namespaces.append(stage.namespace)
        await stage.submit(job("a", task("work", 2)))
        await stage.reached("Running", runs(2))
        await stage.standbys_wait()
        await asyncio.gather(stage.hand_over(), stage.patch({"tasks": [task("work", 3)]}))
        await stage.reached("Running with 3", runs(3))
        assert set(stage.created().values()) == {1}

    play(fault_server, fault_folder, story, replicas=2)
    found = writes(fault_folder, namespaces[0])
    assert terms(found) == ["replica-0", "replica-1"]
    assert [write.what for write in found if write.replica == "replica-0"][-1] == "leases"


def test_a_leader_frozen_for_longer_than_its_lease_writes_nothing_more(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    continued: list[float] = []
    namespaces: list[str] = []

    async def story(stage: Scene) -> None:
        namespaces.append(stage.namespace)
        old, new = stage.replicas
        await stage.submit(job("a", task("work", 30)))
        # In the middle of a reconcile, with creates under way.
        await stage.until("its first pods", lambda: len(stage.pods()) >= 3)
        old.component.signal(signal.SIGSTOP)
        old.retire()
        await stage.until("the other to lead", lambda: new.leads)
        await stage.reached("Running", runs(30))
        continued.append(time.time())
        old.component.signal(signal.SIGCONT)
        await old.component.ended()
        assert old.component.exit_code == 1
        assert "lease" in old.component.log.splitlines()[-1]
        await stage.patch({"tasks": [task("work", 31)]})
        await stage.reached("Running with 31", runs(31))
        assert set(stage.created().values()) == {1}

    play(fault_server, fault_folder, story, replicas=2)
    found = writes(fault_folder, namespaces[0])
    assert terms(found) == ["replica-0", "replica-1"]
    assert not [w for w in found if w.replica == "replica-0" and w.at > continued[0]]


def test_leaders_stopped_one_after_another_never_write_side_by_side(
    fault_server: KubeConfig, fault_folder: Path
) -> None:
    namespaces: list[str] = []

    async def story(stage: Scene) -> None:
        namespaces.append(stage.namespace)
        await stage.submit(job("a", task("work", 1)))
        await stage.reached("Running", runs(1))
        first, second = stage.replicas
        await stage.standbys_wait()
        for leader, replicas in ((first, 2), (second, 3)):
            leader.retire()
            leader.component.signal(signal.SIGTERM)
            await stage.patch({"tasks": [task("work", replicas)]})
            await stage.reached(f"Running with {replicas}", runs(replicas))
            if leader is first:
                await leader.bring_back()
        assert set(stage.created().values()) == {1}

    play(fault_server, fault_folder, story, replicas=2)
    found = writes(fault_folder, namespaces[0])
    assert terms(found) == ["replica-0", "replica-1", "replica-0"]
    # A change of writers only ever follows a write of the lease.
    for one, other in pairwise(found):
        assert one.replica == other.replica or (one.what, other.what) == ("leases", "leases")
