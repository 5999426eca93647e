"""What becomes of a sweep, whatever the API server answers and whenever the operator ends."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, cast

import pytest

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, Unavailable
from di_kube.resources import DIJOBS, DISWEEPS, Resource
from di_local.api.patches import merged
from di_operator.process.controller import JobKey, Outdated
from di_operator.process.lease_state import NotLeading
from di_operator.sweeps.keeper import RESYNC, RETRY, Sweeps
from tests.unit.sweeps.sweeps import START, sweep, template

Object = dict[str, Any]
KEY = JobKey("rl", "tune")
_HALVING = {"firstStep": 2, "reduction": 2}
_ONE_RUNS = {"learner": {"Running": 1}}
_NONE_RUNS = {"learner": {"Pending": 1}}


class Killed(Exception):
    """The operator ends at a write."""


@dataclass
class Cluster:
    """An API server, and what an operator knows of it by its watches.

    Attributes:
        refuse: returns the error for a write; None: it is carried out.
        at_write: called before and after each write.
    """

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    known: dict[tuple[str, str], Object] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    woken: list[JobKey] = field(default_factory=list)
    refuse: Callable[[str, str], ApiError | None] = lambda verb, name: None
    at_write: Callable[[], None] = lambda: None
    leads: bool = True
    is_current: bool = True
    seconds: float = 0.0
    versions: int = 0

    def start(self, **spec: Any) -> None:
        body = sweep(**spec)
        stamps = {"uid": "uid", "namespace": "rl", "generation": 1}
        body["metadata"] |= {**stamps, "creationTimestamp": START.isoformat()}
        self.objects[DISWEEPS.kind, "tune"] = body
        self.watch()

    def watch(self) -> None:
        """Let the watches bring everything."""
        self.known = copy.deepcopy(self.objects)

    def keeper(self) -> Sweeps:
        self.synced, self.current = asyncio.Event(), asyncio.Event()
        self.synced.set()
        if self.is_current:
            self.current.set()
        return Sweeps(
            client=cast(KubeClient, self),
            found=cast(WatchCache, self),
            jobs=lambda _: [job for (kind, _), job in self.known.items() if kind == DIJOBS.kind],
            current=self.current,
            observe_job=lambda job: self.known.update(
                {(DIJOBS.kind, job["metadata"]["name"]): job}
            ),
            wake=lambda key, _: self.woken.append(key),
            check_lease=self.check_lease,
            now=lambda: START + timedelta(seconds=self.seconds),
        )

    def reconcile(self) -> float | None:
        return asyncio.run(self.keeper().reconcile(KEY))

    def check_lease(self) -> None:
        if not self.leads:
            raise NotLeading("gone")

    @property
    def status(self) -> Object:
        found: Object = self.objects[DISWEEPS.kind, "tune"].get("status") or {}
        return found

    def condition(self, kind: str) -> Object:
        (found,) = (each for each in self.status["conditions"] if each["type"] == kind)
        return cast(Object, found)

    def job(self, index: int) -> Object:
        return self.objects[DIJOBS.kind, f"tune-{index}"]

    def jobs(self) -> list[str]:
        return [name for kind, name in self.objects if kind == DIJOBS.kind]

    def set_status(self, index: int, **status: Any) -> None:
        self.job(index)["status"] = status
        self._count_version(self.job(index))
        self.watch()

    def _count_version(self, body: Object) -> None:
        self.versions += 1
        body["metadata"]["resourceVersion"] = str(self.versions)

    # Both a cache's, by namespace and name, and a client's, by resource and name.
    def get(self, first: Any, name: str, namespace: str = "") -> Any:
        if isinstance(first, Resource):
            return self._read(first, name)
        return self.known.get((DISWEEPS.kind, name))

    def absorb(self, body: Object) -> None:
        self.known[DISWEEPS.kind, body["metadata"]["name"]] = body

    async def _read(self, resource: Resource, name: str) -> Object:
        return copy.deepcopy(self.objects[resource.kind, name])

    async def list(
        self, resource: Resource, _: str, *, label_selector: str
    ) -> tuple[list[Object], str]:
        assert label_selector == "diengine/sweep=tune"
        return [
            copy.deepcopy(body) for (kind, _), body in self.objects.items() if kind == resource.kind
        ], ""

    async def create(self, resource: Resource, body: Object, _: str) -> Object:
        name = body["metadata"]["name"]
        self.at_write()
        if (error := self.refuse("create", name)) is not None:
            raise error
        if (resource.kind, name) in self.objects:
            raise AlreadyExists(kind=resource.kind, name=name)
        kept = copy.deepcopy(body)
        kept["metadata"] |= {"uid": f"uid-{len(self.created)}", "namespace": "rl"}
        self._count_version(kept)
        self.objects[resource.kind, name] = kept
        self.created.append(name)
        self.at_write()
        return copy.deepcopy(kept)

    async def patch(
        self, resource: Resource, name: str, patch: Object, _: str, **__: Any
    ) -> Object:
        self.at_write()
        if (error := self.refuse("patch", name)) is not None:
            raise error
        now = self.objects.get((resource.kind, name))
        if now is None:
            raise NotFound(kind=resource.kind, name=name)
        version = patch["metadata"].get("resourceVersion")
        is_outdated = version not in (None, now["metadata"].get("resourceVersion"))
        if patch["metadata"]["uid"] != now["metadata"]["uid"] or is_outdated:
            raise Conflict(kind=resource.kind, name=name)
        self.objects[resource.kind, name] = merged(now, patch)
        self._count_version(self.objects[resource.kind, name])
        self.at_write()
        return copy.deepcopy(self.objects[resource.kind, name])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_trials_are_created_and_owned_by_the_sweep(cluster: Cluster) -> None:
    cluster.start(parallelism=3)
    assert cluster.reconcile() == RESYNC
    assert cluster.jobs() == ["tune-0", "tune-1", "tune-2"]
    (owner,) = cluster.job(0)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("DISweep", "uid", True)
    assert (cluster.status["created"], cluster.status["pending"]) == (3, 3)
    assert cluster.condition("Complete")["status"] == "False"


def test_a_stop_and_its_record_are_one_write(cluster: Cluster) -> None:
    cluster.start(earlyStopping=_HALVING)
    cluster.reconcile()
    running = {"phase": "Running", "taskStatus": _ONE_RUNS}
    cluster.set_status(0, **running, profilings={"step": 2, "episodeReturn": 5.0})
    cluster.reconcile()
    cluster.set_status(1, **running, profilings={"step": 2, "episodeReturn": 4.0})
    cluster.reconcile()
    job = cluster.job(1)
    assert job["spec"]["suspend"] is True
    assert "not among the best at step 2" in job["metadata"]["annotations"]["diengine/rungs"]
    assert "suspend" not in cluster.job(0)["spec"]
    # Its pods still run, also those that are not ready.
    cluster.set_status(1, phase="Pending", readyReplicas=0, taskStatus=_ONE_RUNS)
    cluster.reconcile()
    assert cluster.jobs() == ["tune-0", "tune-1"]
    cluster.set_status(1, phase="Pending", readyReplicas=0, taskStatus=_NONE_RUNS)
    cluster.reconcile()
    assert cluster.jobs() == ["tune-0", "tune-1", "tune-2"]
    assert cluster.status["best"]["trial"] == "tune-0"


def test_a_sweep_whose_trials_have_ended_is_complete_for_good(cluster: Cluster) -> None:
    cluster.start(maxTrials=2)
    cluster.reconcile()
    for index in range(2):
        cluster.set_status(index, phase="Succeeded")
    assert cluster.reconcile() is None
    assert cluster.condition("Complete")["reason"] == "TrialsEnded"
    before = copy.deepcopy(cluster.objects)
    cluster.objects[DISWEEPS.kind, "tune"]["spec"]["maxTrials"] = 9
    cluster.watch()
    assert cluster.reconcile() is None
    assert cluster.jobs() == [name for kind, name in before if kind == DIJOBS.kind]


def test_a_used_budget_suspends_all_trials(cluster: Cluster) -> None:
    cluster.start(maxSeconds=60)
    assert cluster.reconcile() == RESYNC
    cluster.seconds = 60.0
    assert cluster.reconcile() is not None
    cluster.watch()
    assert cluster.reconcile() is None
    assert [cluster.job(index)["spec"]["suspend"] for index in range(2)] == [True, True]
    assert cluster.condition("Complete")["reason"] == "BudgetUsed"


def test_a_refused_trial_holds_up_the_later_ones_and_is_tried_again(cluster: Cluster) -> None:
    cluster.start(parallelism=3)
    refusal = Forbidden(kind="DIJob", name="tune-1", code=403, message="exceeded quota: team")
    cluster.refuse = lambda verb, name: refusal if name == "tune-1" else None
    assert cluster.reconcile() == RETRY
    assert cluster.jobs() == ["tune-0"]
    assert cluster.condition("Refused")["message"] == "trial tune-1: exceeded quota: team"
    cluster.refuse = lambda verb, name: None
    assert cluster.reconcile() == RESYNC
    assert cluster.jobs() == ["tune-0", "tune-1", "tune-2"]
    assert cluster.condition("Refused")["status"] == "False"


def test_a_deleted_trial_is_not_created_again(cluster: Cluster) -> None:
    cluster.start(maxTrials=2)
    cluster.reconcile()
    del cluster.objects[DIJOBS.kind, "tune-1"]
    cluster.watch()
    cluster.reconcile()
    assert cluster.jobs() == ["tune-0"]
    assert cluster.created == ["tune-0", "tune-1"]


def test_a_trial_that_the_watch_does_not_show_yet_does_not_count_as_deleted(
    cluster: Cluster,
) -> None:
    cluster.start(maxTrials=2)
    cluster.reconcile()
    # Another replica reads its status first.
    for index in range(2):
        del cluster.known[DIJOBS.kind, f"tune-{index}"]
    with pytest.raises(Outdated):
        cluster.reconcile()
    assert cluster.reconcile() == RESYNC
    assert cluster.condition("Complete")["status"] == "False"


def test_a_trial_that_ends_while_it_is_stopped_is_decided_again(cluster: Cluster) -> None:
    cluster.start(maxSeconds=1)
    cluster.reconcile()
    cluster.seconds = 1.0
    cluster.refuse = lambda verb, name: Conflict(kind="DIJob", name=name)
    with pytest.raises(Outdated):
        cluster.reconcile()


def test_nothing_is_decided_before_the_jobs_are_read(cluster: Cluster) -> None:
    cluster.start()
    cluster.is_current = False

    async def reconcile() -> None:
        await asyncio.wait_for(cluster.keeper().reconcile(KEY), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(reconcile())
    assert not cluster.created


def test_a_stop_that_is_not_known_yet_is_not_overwritten(cluster: Cluster) -> None:
    cluster.start(earlyStopping=_HALVING)
    cluster.reconcile()
    for index, value in enumerate((5.0, 4.0)):
        numbers = {"step": 2, "episodeReturn": value}
        cluster.set_status(index, phase="Running", taskStatus=_ONE_RUNS, profilings=numbers)
    before = copy.deepcopy(cluster.known)
    cluster.reconcile()
    record = cluster.job(1)["metadata"]["annotations"]["diengine/rungs"]
    # Another process leads, whose watch is behind.
    cluster.known = before
    cluster.known[DIJOBS.kind, "tune-0"] = copy.deepcopy(cluster.job(0))
    with pytest.raises(Outdated):
        cluster.reconcile()
    assert "stopped" in record
    assert cluster.job(1)["metadata"]["annotations"]["diengine/rungs"] == record


def test_a_trial_that_is_created_after_the_end_of_its_sweep_is_stopped(cluster: Cluster) -> None:
    cluster.start()
    cluster.reconcile()
    late = copy.deepcopy(cluster.job(1))
    del cluster.objects[DIJOBS.kind, "tune-1"]
    cluster.objects[DISWEEPS.kind, "tune"]["spec"]["stop"] = True
    for _ in range(2):
        cluster.watch()
        cluster.reconcile()
    assert cluster.condition("Complete")["status"] == "True"
    cluster.objects[DIJOBS.kind, "tune-1"] = late
    cluster.watch()
    assert cluster.reconcile() is None
    assert cluster.job(1)["spec"]["suspend"] is True


def test_a_status_that_conflicts_is_written_later(cluster: Cluster) -> None:
    cluster.start(maxTrials=1)
    cluster.reconcile()
    cluster.set_status(0, phase="Succeeded")
    cluster.refuse = lambda verb, name: Conflict(kind="DISweep", name=name)
    with pytest.raises(Outdated):
        cluster.reconcile()


def test_nothing_is_written_without_the_lease(cluster: Cluster) -> None:
    cluster.start()
    cluster.leads = False
    with pytest.raises(NotLeading):
        cluster.reconcile()
    assert not cluster.created


def test_errors_of_the_api_server_are_raised_for_the_back_off(cluster: Cluster) -> None:
    cluster.start()
    cluster.refuse = lambda verb, name: Unavailable(kind="DIJob", name=name)
    with pytest.raises(Unavailable):
        cluster.reconcile()


def test_jobs_and_sweeps_wake_the_sweep_of_their_name(cluster: Cluster) -> None:
    cluster.start(maxTrials=1)
    cluster.reconcile()
    keeper = cluster.keeper()
    keeper.follow_job("MODIFIED", cluster.job(0))
    keeper.follow_job("MODIFIED", {"metadata": {"namespace": "rl", "name": "other"}})
    keeper.follow_sweep("ADDED", cluster.objects[DISWEEPS.kind, "tune"])
    assert cluster.woken == [KEY, KEY]


def _population(cluster: Cluster) -> None:
    saving = template()
    saving["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
    rule = {"size": 2, "interval": 10}
    cluster.start(population=rule, template=saving, maxTrials=None)


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_copy_is_created_when_the_pods_of_the_replaced_trial_have_ended(cluster: Cluster) -> None:
    _population(cluster)
    cluster.reconcile()
    running = {"phase": "Running", "taskStatus": _ONE_RUNS}
    for index, value in enumerate((5.0, 4.0)):
        numbers = {"step": 10, "episodeReturn": value, "checkpointStep": 10}
        cluster.set_status(index, **running, profilings=numbers)
    cluster.reconcile()
    assert cluster.job(1)["spec"]["suspend"] is True
    assert cluster.jobs() == ["tune-0", "tune-1"]
    cluster.set_status(1, phase="Pending", taskStatus=_NONE_RUNS)
    cluster.reconcile()
    assert cluster.jobs() == ["tune-0", "tune-1", "tune-3"]
    (owner,) = cluster.job(3)["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid"
    container = cluster.job(3)["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert {"name": "DI_RESTORE_FROM", "value": "/checkpoint/tune-0.uid"} in container["env"]
    assert (cluster.status["created"], cluster.status["stopped"]) == (3, 1)
    assert cluster.condition("Copying")["status"] == "True"


@pytest.mark.proves("sweeps.md#population-based-training")
def test_a_population_without_checkpoints_shows_that_it_copies_none(cluster: Cluster) -> None:
    _population(cluster)
    cluster.reconcile()
    for index in range(2):
        numbers = {"step": 10, "episodeReturn": float(index)}
        cluster.set_status(index, phase="Running", readyReplicas=1, profilings=numbers)
    cluster.reconcile()
    found = cluster.condition("Copying")
    assert (found["status"], found["reason"]) == ("False", "NoCheckpoint")


@pytest.mark.parametrize("seed", range(20))
def test_an_operator_killed_at_any_write_makes_no_trial_twice(cluster: Cluster, seed: int) -> None:
    rng = Random(seed)

    def perhaps_killed() -> None:
        if rng.random() < 0.3:
            raise Killed

    cluster.start(parallelism=3, earlyStopping=_HALVING)
    cluster.at_write = perhaps_killed
    for _ in range(2000):
        try:
            if cluster.reconcile() is None:
                break
        except (Killed, Outdated):
            # The next operator starts with what its watches bring.
            cluster.watch()
            continue
        for name in cluster.jobs():
            job = cluster.objects[DIJOBS.kind, name]
            status = job.get("status") or {"phase": "Running", "profilings": {"step": 0}}
            if status["phase"] == "Running" and not job["spec"].get("suspend"):
                step = status["profilings"]["step"] + rng.randint(0, 1)
                status["profilings"] = {"step": step, "episodeReturn": rng.random()}
                status["phase"] = "Succeeded" if step >= 8 else "Running"
            job["status"] = status
        if rng.random() < 0.5:
            cluster.watch()
    assert cluster.created == [f"tune-{index}" for index in range(12)]
    assert cluster.condition("Complete")["status"] == "True"
