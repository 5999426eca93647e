"""What is foretold of a job that is not there yet, beside what the operator's allocator does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Any, Final

import pytest

from di_api.field_error import InvalidSpec
from di_api.names import API_VERSION, KIND
from di_operator.allocator.forecast.cluster_snapshot import Look, look_at
from di_operator.allocator.forecast.hypothetical_job import Trial
from di_operator.allocator.forecast.what_if import Forecast, Surroundings
from di_operator.allocator.grants.checked_plan import Change
from di_operator.allocator.grants.granting import NOTHING_SAID, Words
from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator_round import Round
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.metrics.metrics import Metrics
from di_operator.process.clock import SystemClock
from tests.unit.allocator.objects import NOW, job, node, other, pod, task

Object = dict[str, Any]
CASES: Final = 1000
ROUNDS: Final = 6
KINDS: Final[tuple[Object, ...]] = (
    {},
    {},
    {"scheduling": {"gang": True}},
    {"preemptible": False, "scheduling": {"gang": True}},
)
POLICIES: Final[tuple[Policy, ...]] = (
    FitPolicy(),
    BinpackPolicy(),
    GoodputPolicy(),
    FitPolicy(backfill=False),
    GoodputPolicy(shares={"rl": 1, "web": 3}),
)


def trial(name: str, *tasks: Object, **spec: Any) -> Trial:
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"preemptible": True, "tasks": list(tasks), **spec},
    }
    return Trial.of(manifest, namespace="rl", now=NOW, taken=set())


class Operator:
    """The operator's scheduler, one look at a time: what it decides in its thread."""

    def __init__(self, policy: Policy) -> None:
        specs = SpecCache(size=64)
        self._round = Round(
            policy=policy,
            forecaster=None,
            period=60.0,
            monotonic=SystemClock().monotonic,
            observer=Metrics(),
        )
        self._reader = ClusterReader(specs)
        self.words: Words = NOTHING_SAID

    def look(self, changes: Changes, *, everything: bool) -> None:
        look = Look(
            reader=self._reader,
            changes=changes,
            words=self.words,
            now=NOW,
            everything=everything,
            over=frozenset(),
        )
        _, done, _ = self._round.run(look)
        self.words = done.words

    def wants(self) -> dict[str, NodeList]:
        return {uid: word.wants for uid, word in self.words.items()}


class Cluster:
    """Nodes, and jobs that have what the operator has given them."""

    def __init__(self, random: Random, policy: Policy) -> None:
        self.nodes = [node(name, random.choice((1, 2, 4, 8))) for name in "abcdef"[: _few(random)]]
        self.jobs = [some_job(random, f"j{number}") for number in range(random.randint(0, 6))]
        self.pods: list[Object] = []
        names = [each["metadata"]["name"] for each in self.nodes]
        self.others = [
            _renamed(other(random.choice(names)), f"web-{number}")
            for number in range(random.randint(0, 3))
        ]
        self.operator = Operator(policy)
        self.operator.look(self.changes(), everything=True)
        for _ in range(ROUNDS):
            if self.is_settled:
                break
            self._obey()
            self.operator.look(self.changes(), everything=True)

    def changes(self) -> Changes:
        return Changes.all(
            jobs=self.jobs, departed=(), nodes=self.nodes, pods=self.pods, others=self.others
        )

    def surroundings(self, policy: Policy) -> Surroundings:
        pods = [*self.pods, *self.others]
        return look_at(jobs=self.jobs, nodes=self.nodes, pods=pods, policy=policy, now=NOW)

    @property
    def is_settled(self) -> bool:
        """Whether all have what they are to have; else it is not seen what the leader is about."""
        placed = {each["metadata"]["uid"]: each["status"].get("placement") for each in self.jobs}
        return all(
            {name: [*nodes] for name, nodes in word.wants.tasks} == placed[uid]
            for uid, word in self.operator.words.items()
        )

    def _obey(self) -> None:
        """Every job gets what it was granted, and has its pods there at once."""
        gone = {each["metadata"]["uid"]: (False, each) for each in self.pods}
        self.pods = []
        for each in self.jobs:
            word = self.operator.words.get(each["metadata"]["uid"])
            if word is None:
                continue
            placement = dict(word.has.tasks)
            status = {key: each["status"][key] for key in ("profilings",) if key in each["status"]}
            status["phase"] = "Running" if placement else "Pending"
            each["status"] = {**status, "placement": {k: [*v] for k, v in placement.items()}}
            for name, places in placement.items():
                self.pods += [
                    _renamed(
                        pod(each["metadata"]["name"], name, place),
                        f"{each['metadata']['name']}-{name}-{index}",
                    )
                    for index, place in enumerate(places)
                ]
        left = {each["metadata"]["uid"] for each in self.pods}
        found = Changes(pods={uid: each for uid, each in gone.items() if uid not in left})
        self.operator.look(found, everything=False)


def _few(random: Random) -> int:
    return random.randint(1, 6)


def _renamed(found: Object, name: str) -> Object:
    return {**found, "metadata": {**found["metadata"], "name": name, "uid": f"uid-{name}"}}


def some_tasks(random: Random) -> list[Object]:
    low = random.randint(1, 3)
    high = low + random.choice((0, 1, 4, 9))
    tasks = [task("learner", random.randint(low, high), minReplicas=low, maxReplicas=high)]
    if random.random() < 0.5:
        tasks.append(task("collector", 2, minReplicas=1, maxReplicas=random.randint(2, 6)))
    return tasks


def some_job(random: Random, name: str) -> Object:
    created = f"2026-01-01T{random.randint(1, 11):02}:{random.randint(0, 59):02}:00Z"
    status: Object = {}
    if random.random() < 0.5:
        status["profilings"] = {
            "reportedAt": "2026-01-01T11:59:00Z",
            "learners": 1,
            "batchSize": random.choice((128, 512)),
            "trainStepsPerSec": random.choice((1.0, 5.0)),
        }
    return job(
        name,
        *some_tasks(random),
        phase="Pending",
        priority=random.choice(("normal", "normal", "high")),
        metadata={"creationTimestamp": created},
        status=status,
    )


@pytest.mark.extended
def test_a_thousand_forecasts_match_what_the_allocator_does() -> None:
    seen: Counter[str] = Counter()
    for seed in count():
        random = Random(seed)
        policy = POLICIES[seed % len(POLICIES)]
        cluster = Cluster(random, policy)
        if not cluster.is_settled:
            # What the leader is about to do is in its memory alone.
            continue
        tried = trial(
            "trial",
            *some_tasks(random),
            priority=random.choice(("normal", "high")),
            **random.choice(KINDS),
        )
        before = cluster.operator.wants()
        foretold = cluster.surroundings(policy).forecast(tried)

        arrival = Changes(jobs={tried.uid: (True, tried.job)})
        cluster.operator.look(arrival, everything=False)
        assert foretold.at_once == cluster.operator.words[tried.uid].has, seed
        cluster.operator.look(Changes(), everything=True)
        after = cluster.operator.wants()
        assert foretold.later == after.pop(tried.uid), seed
        told = {f"uid-{each.key.partition('/')[2]}": each.after for each in foretold.shifts}
        # What is settled stays as it is without the new job.
        moved = {uid: nodes for uid, nodes in after.items() if sorted(nodes) != sorted(before[uid])}
        assert told == moved, seed
        seen["at once" if foretold.at_once else "later" if foretold.later else "never"] += 1
        seen["shifts"] += bool(told)
        seen["cases"] += 1
        if seen["cases"] == CASES:
            break
    assert min(seen[each] for each in ("at once", "later", "never", "shifts")) > 20, seen


def here(
    *jobs: Object,
    pods: Sequence[Object] = (),
    nodes: Sequence[Object] = (),
    policy: Policy | None = None,
) -> Surroundings:
    return look_at(
        jobs=jobs, nodes=nodes or [node("a", 4)], pods=pods, policy=policy or FitPolicy(), now=NOW
    )


def held(name: str, count: int, node: str = "a", **spec: Any) -> Object:
    """A preemptible job that has so many slots of a node."""
    status = {"placement": {"learner": [node] * count}}
    return job(name, task("learner", count, **spec.pop("bounds", {})), status=status, **spec)


def test_a_job_that_fits_is_forecast_with_its_nodes() -> None:
    found = here(held("x", 2)).forecast(trial("t", task("learner", 2)))
    assert found == Forecast(
        at_once=NodeList.of({"learner": ("a", "a")}), later=NodeList.of({"learner": ("a", "a")})
    )
    assert found.starts


def test_a_job_that_does_not_fit_names_the_shortage_and_the_end() -> None:
    surroundings = here(held("x", 3), held("y", 1))
    tried = trial("t", task("learner", 2))
    found = surroundings.forecast(tried)
    assert (found.at_once, found.later, found.impossible) == (WAIT, WAIT, "")
    assert "task learner needs 2 replicas, there is room for 0 on 1 of 1 nodes" in found.obstacle
    assert surroundings.first_end(tried, ["uid-gone", "uid-y", "uid-x"]) == "uid-x"


def test_a_job_too_large_for_the_empty_cluster_is_impossible() -> None:
    surroundings = here(held("x", 1))
    tried = trial("t", task("learner", 5))
    assert "room for 4" in surroundings.forecast(tried).impossible
    assert surroundings.first_end(tried, ["uid-x"]) is None


def test_the_forecast_names_the_jobs_that_shrink() -> None:
    report = {
        "reportedAt": "2026-01-01T11:59:00Z",
        "observations": [
            {"nodes": 1, "replicas": n, "samples": 128, "computing": 1.0, "iteration": 1.1}
            for n in (1, 2, 4)
        ],
        "gradParams": {"sqr": 1.0, "var": 1000.0},
        **{"initBatchSize": 128, "maxBatchSize": 4096, "localBatchMax": 128},
    }
    running = held("x", 4, bounds={"minReplicas": 1, "maxReplicas": 4})
    running["status"]["profilings"] = report
    surroundings = here(running, policy=GoodputPolicy())
    found = surroundings.forecast(trial("t", task("learner", minReplicas=1, maxReplicas=4)))
    assert found.later
    assert [(each.key, each.change, len(each.before)) for each in found.shifts] == [
        ("rl/x", Change.RESTART, 4)
    ]
    assert len(found.shifts[0].after) + len(found.later) <= 4


def test_an_ordinary_job_fits_by_requests_into_capacity_without_pods() -> None:
    """Not into room that was granted to a job whose pods are about to be made."""
    granted = held("x", 3)
    tried = trial("t", task("learner", 2), preemptible=False)
    found = here(granted, nodes=[node("a", 4), node("b", 2)]).forecast(tried)
    assert found.at_once == NodeList.of({"learner": ("a", "b")})
    taken = _renamed(pod("y", "learner", "a"), "y-learner-0")
    unseen = [_renamed(taken, f"y-learner-{index}") for index in range(3)]
    for each in unseen:
        each["spec"] = {**each["spec"], "containers": task("x")["template"]["spec"]["containers"]}
    assert not here(pods=unseen).forecast(tried).starts
    ordinary = job("y", task("learner", 3), preemptible=False)
    surroundings = here(ordinary, pods=unseen)
    assert not surroundings.forecast(tried).starts
    assert surroundings.first_end(tried, ["uid-y"]) == "uid-y"


def test_without_an_allocator_preemptible_jobs_count_as_ordinary() -> None:
    tried = trial("t", task("learner", 3))
    surroundings = look_at(jobs=[], nodes=[node("a", 4)], pods=[], policy=None, now=NOW)
    assert len(surroundings.forecast(tried).at_once) == 3


def test_the_forecast_of_a_coordinated_job_places_its_coordinator() -> None:
    template = {"spec": task("x")["template"]["spec"]}
    manifest = {
        "apiVersion": "diengine.opendilab.org/v1alpha1",
        "kind": KIND,
        "metadata": {"name": "c"},
        "spec": {"coordinator": {"template": template}, "collector": {"template": template}},
    }
    tried = Trial.of(manifest, namespace="rl", now=NOW, taken=set())
    assert here().forecast(tried).at_once == NodeList.of({"coordinator": ("a",)})


def test_a_forecast_ignores_suspension_and_an_equal_name() -> None:
    manifest = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "x"},
        "spec": {"preemptible": True, "suspend": True, "tasks": [task("learner")]},
    }
    tried = Trial.of(manifest, namespace="rl", now=NOW, taken={"x", "x-2"})
    assert tried.key == "rl/x-3"
    assert here(held("x", 1)).forecast(tried).starts


def test_a_spec_that_admission_refuses_is_not_forecast() -> None:
    with pytest.raises(InvalidSpec, match="replicas"):
        trial("t", task("learner", -1))


def test_high_priority_starts_before_an_older_waiting_job() -> None:
    waiting = job("w", task("learner", 3), phase="Pending")
    running = held("x", 2)
    # What has high priority itself makes no way.
    running["spec"]["priority"] = "high"
    tried = trial("t", task("learner", 3))
    assert here(running, waiting).first_end(tried.raised(), ["uid-x"]) == "uid-x"
    assert here(running, waiting).first_end(tried, ["uid-x"]) is None


def test_a_forecast_names_jobs_of_lower_priority_that_make_way() -> None:
    found = here(held("x", 4)).forecast(trial("t", task("learner", 3)).raised())
    assert found.starts
    assert [(each.key, each.change) for each in found.shifts] == [("rl/x", Change.STOP)]


def test_waiting_jobs_start_after_the_ends_that_free_their_nodes() -> None:
    waiting = [job(name, task("learner", n), phase="Pending") for name, n in (("w", 4), ("v", 1))]
    surroundings = here(held("x", 2), held("y", 1), *waiting)
    assert surroundings.starts(["uid-y", "uid-x"]) == {"uid-v": None}
    nothing = look_at(jobs=waiting, nodes=[node("a", 4)], pods=[], policy=None, now=NOW)
    assert nothing.starts([]) == {}


def test_a_forecast_counts_only_nodes_that_the_job_can_use() -> None:
    def learner() -> Object:
        made = task("learner", minReplicas=1, maxReplicas=4)
        made["template"]["spec"]["nodeSelector"] = {"pool": "a"}
        return made

    a, b = (
        {**each, "metadata": {**each["metadata"], "labels": {"pool": each["metadata"]["name"]}}}
        for each in (node("a", 4), node("b", 8))
    )
    placed = {"placement": {"learner": ["a"] * 4}}
    first = job("first", learner(), status=placed)
    pods = [_renamed(pod("first", "learner", "a"), f"first-learner-{index}") for index in range(4)]
    found = look_at(
        jobs=[first], nodes=[a, b], pods=pods, policy=GoodputPolicy(), now=NOW
    ).forecast(trial("second", learner()))

    assert len(found.later.task("learner")) == 2
    assert [(each.key, len(each.after.task("learner"))) for each in found.shifts] == [
        ("rl/first", 2)
    ]


def test_a_high_job_of_the_scheduler_gets_capacity_reserved_from_lower_ones() -> None:
    cluster = here(held("big", 4, bounds={"minReplicas": 1, "maxReplicas": 4}))
    ordinary = {"preemptible": False}
    refused = cluster.forecast(trial("late", task("learner", 2), **ordinary))
    assert (refused.starts, refused.shifts) == (False, ())
    found = cluster.forecast(trial("urgent", task("learner", 2), priority="high", **ordinary))
    assert (found.at_once, found.later) == (WAIT, NodeList.of({"learner": ("a", "a")}))
    (shift,) = found.shifts
    assert (shift.key, shift.change, len(shift.after)) == ("rl/big", Change.RESTART, 2)
    again = cluster.forecast(trial("late", task("learner", 2), **ordinary))
    assert not again.starts
