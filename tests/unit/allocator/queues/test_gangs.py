"""Gangs from arrival to end: the allocator, and a scheduler that sees pods and no gangs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from di_api.names import pod_name
from di_operator.allocator.forecast.arrivals import ask_for_arrivals
from di_operator.allocator.grants.granting import NOTHING_SAID, Words, granted, step
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import GANG, NOW, job, node, pod, task

Object = dict[str, Any]
ROOM = 5
ONE_NODE, TWO_NODES = {"a": 5}, {"a": 3, "b": 2}
FIRST, SECOND = "learner", "collector"


@dataclass(slots=True)
class Gang:
    """A gang whose second task waits until the pods of the first are bound."""

    name: str
    first: int
    second: int
    priority: str = "normal"
    nodes: dict[str, str] = field(default_factory=dict)
    """Of each pod there is; empty: it is not bound."""
    let_go: bool = False
    ended: bool = False

    @property
    def size(self) -> int:
        return self.first + self.second

    @property
    def is_whole(self) -> bool:
        return len(self.nodes) == self.size and all(self.nodes.values())

    def body(self) -> Object:
        phase = "Starting" if len(self.nodes) == self.size else "Pending"
        tasks = [task(FIRST, self.first)]
        if self.second:
            tasks.append(task(SECOND, self.second, dependsOn=[FIRST]))
        phase = "Succeeded" if self.ended else phase
        return job(self.name, *tasks, phase=phase, priority=self.priority, **GANG)

    def pods(self) -> list[Object]:
        kinds = {name: FIRST if f"-{FIRST}-" in name else SECOND for name in self.nodes}
        found = [pod(self.name, kinds[name], where) for name, where in self.nodes.items()]
        for each, name in zip(found, self.nodes, strict=True):
            each["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        return found

    def make_pods(self) -> None:
        """What the lifecycle does: the second task's pods wait for the first's."""
        for index in range(self.first):
            self.nodes.setdefault(pod_name(self.name, FIRST, index), "")
        if all(self.nodes.values()):
            for index in range(self.second):
                self.nodes.setdefault(pod_name(self.name, SECOND, index), "")


@dataclass(slots=True)
class World:
    """A cluster in which each thing that happens is one of several that could."""

    gangs: list[Gang]
    policy: Policy
    nodes: dict[str, int]
    words: Words = field(default_factory=lambda: NOTHING_SAID)
    arrived: int = 0

    @property
    def there(self) -> list[Gang]:
        return [gang for gang in self.gangs[: self.arrived] if not gang.ended]

    def look(self, *, everything: bool) -> None:
        """One look of the allocator."""
        reader = ClusterReader(read_spec)
        reader.take(
            Changes.all(
                jobs=[gang.body() for gang in self.gangs[: self.arrived]],
                departed=[],
                nodes=[node(name, room) for name, room in self.nodes.items()],
                pods=[body for gang in self.there for body in gang.pods()],
                others=[],
            )
        )
        found = reader.read(granted=granted(self.words), now=NOW)
        if everything:
            answer = self.policy.optimize(found.jobs, found.nodes, found.held)
        else:
            answer = ask_for_arrivals(self.words, found, self.policy.allocate)
        self.words = step(self.words, found, answer, whole=everything, explain=everything).words
        for gang in self.there:
            word = self.words.get(f"uid-{gang.name}")
            gang.let_go = bool(gang.nodes) or (word is not None and not word.grant.message)

    def free(self) -> list[str]:
        taken = Counter(where for gang in self.there for where in gang.nodes.values())
        return [name for name, room in self.nodes.items() for _ in range(room - taken[name])]

    def bind_one(self, chance: random.Random) -> None:
        waiting = [(g, name) for g in self.there for name, where in g.nodes.items() if not where]
        free = self.free()
        if waiting and free:
            gang, name = chance.choice(waiting)
            gang.nodes[name] = chance.choice(free)

    def do(self, what: str, chance: random.Random) -> None:
        match what:
            case "arrive":
                self.arrived = min(self.arrived + 1, len(self.gangs))
            case "look":
                self.look(everything=False)
            case "period":
                self.look(everything=True)
            case "restart":
                self.words = NOTHING_SAID
                self.look(everything=True)
            case "bind":
                self.bind_one(chance)
            case "make":
                for gang in self.there:
                    if gang.let_go:
                        gang.make_pods()
            case _:
                for gang in self.there:
                    gang.ended = gang.is_whole


BEGIN = ("arrive", "look", "make", "bind")
STEPS = st.sampled_from(
    [BEGIN, (*BEGIN, *BEGIN, "restart"), ("restart",), ("period",), ("make", "bind"), ("end",)]
)
gangs = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from(["normal", "high"])),
    min_size=2,
    max_size=4,
)
nodes = st.sampled_from([ONE_NODE, TWO_NODES])
policies = st.sampled_from([FitPolicy, GoodputPolicy])


@given(gangs, nodes, policies, st.lists(STEPS, max_size=12), st.randoms())
def test_gangs_that_do_not_fit_together_run_one_after_another(
    sizes: list[tuple[int, int, str]],
    room: dict[str, int],
    policy: type[Policy],
    steps: list[tuple[str, ...]],
    chance: random.Random,
) -> None:
    world = World([Gang(f"g{at}", *size) for at, size in enumerate(sizes)], policy(), room)
    # Whatever has happened, a few rounds of everything bring all to their end.
    rest = ("arrive", "period", "make", *("bind",) * ROOM, "make", *("bind",) * ROOM, "end")
    for what in (*chain(*steps), *rest * (len(sizes) + 1)):
        world.do(what, chance)
        begun = [gang.size for gang in world.there if gang.nodes]
        assert sum(begun) <= ROOM
    assert all(gang.ended for gang in world.gangs)


def test_a_new_leader_keeps_capacity_for_a_gangs_dependent_task() -> None:
    first, second = Gang("first", 1, 2), Gang("second", 3, 0, "high")
    world = World([first, second], FitPolicy(), TWO_NODES)
    chance = random.Random(0)
    for what in ("arrive", "look", "make"):
        world.do(what, chance)
    # Not where it was reckoned with: the scheduler has a mind of its own.
    first.nodes = dict.fromkeys(first.nodes, "a")
    for what in ("arrive", "restart", "make", "period", "make"):
        world.do(what, chance)
    assert len(first.nodes) == first.size
    assert second.nodes == {}
