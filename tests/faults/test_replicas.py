"""Two replicas: who writes when, as the API server's own audit log has it."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from di_operator.leadership.release_claim import LEASE_NAME
from tests.faults.conftest import played
from tests.integration.operator_testbed import job, task
from tools.faults.scenarios import Scenario
from tools.faults.scene import Scene
from tools.faults.session import audit_log
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


@dataclass(slots=True)
class Left:
    """What a story has left: its writes, when a frozen leader went on, and what it raised."""

    namespace: str = ""
    continued: float = 0.0
    found: list[Write] = field(default_factory=list)
    outcome: object = None

    def writes(self) -> list[Write]:
        """The writes. Raises what the story raised."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.found


async def crashed(stage: Scene, left: Left) -> None:
    await stage.submit(job("a", task("work", 2)))
    await stage.reached("Running", runs(2))
    await stage.standbys_wait()
    leader = stage.replicas[0]
    leader.retire()
    leader.component.signal(signal.SIGKILL)
    await stage.patch({"tasks": [task("work", 3)]})
    await stage.reached("Running with 3", runs(3))


async def frozen(stage: Scene, left: Left) -> None:
    old, new = stage.replicas
    await stage.submit(job("a", task("work", 30)))
    # In the middle of a reconcile, with creates under way.
    await stage.until("its first pods", lambda: len(stage.pods()) >= 3)
    old.component.signal(signal.SIGSTOP)
    old.retire()
    await stage.until("the other to lead", lambda: new.leads)
    await stage.reached("Running", runs(30))
    left.continued = time.time()
    old.component.signal(signal.SIGCONT)
    await old.component.ended()
    assert old.component.exit_code == 1
    assert "lease" in old.component.log.splitlines()[-1]
    await stage.patch({"tasks": [task("work", 31)]})
    await stage.reached("Running with 31", runs(31))


async def stopped(stage: Scene, left: Left) -> None:
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


STORIES = {story.__name__: story for story in (crashed, frozen, stopped)}


@pytest.fixture(scope="module")
def left(fault_server: KubeConfig, fault_folder: Path) -> dict[str, Left]:
    found = {name: Left() for name in STORIES}

    def scenario(name: str) -> Scenario:
        async def story(stage: Scene) -> None:
            found[name].namespace = stage.namespace
            await STORIES[name](stage, found[name])
            assert set(stage.created().values()) == {1}

        story.__name__ = name
        return Scenario(story=story, faults=())

    scenarios = {name: scenario(name) for name in STORIES}
    for name, outcome in played(fault_server, fault_folder, scenarios, replicas=2).items():
        found[name].outcome = outcome
        found[name].found = writes(fault_folder, found[name].namespace)
    return found


@pytest.mark.proves("operations.md#availability/one-replica-of-any-service")
def test_a_standby_succeeds_a_leader_that_crashed_after_its_lease(left: dict[str, Left]) -> None:
    found = left["crashed"].writes()
    assert terms(found) == ["replica-0", "replica-1"]
    first = next(write.at for write in found if write.replica == "replica-1")
    last = max(w.at for w in found if w.replica == "replica-0" and w.what == "leases")
    assert first - last >= LEASE


def test_a_leader_frozen_for_longer_than_its_lease_writes_nothing_more(
    left: dict[str, Left],
) -> None:
    found, continued = left["frozen"].writes(), left["frozen"].continued
    assert terms(found) == ["replica-0", "replica-1"]
    assert not [w for w in found if w.replica == "replica-0" and w.at > continued]


def test_leaders_stopped_one_after_another_never_write_side_by_side(left: dict[str, Left]) -> None:
    found = left["stopped"].writes()
    assert terms(found) == ["replica-0", "replica-1", "replica-0"]
    # A change of writers only ever follows a write of the lease.
    for one, other in pairwise(found):
        assert one.replica == other.replica or (one.what, other.what) == ("leases", "leases")
