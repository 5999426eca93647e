"""Whatever happens to jobs, sweeps and their operator, nothing is left to do, and no success is
false.

A failure shows the seed and all that happened. To try one again: add `@example(SEED)`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import pytest
import structlog
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from di_operator.builders.pinning import Binding
from tests.profiles import by_profile
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories import allocation_checks, jobs
from tests.unit.operator.histories.checks import Watcher
from tests.unit.operator.histories.nodes import Allocation
from tests.unit.operator.histories.queue import UNLIMITED
from tests.unit.operator.histories.steps import take
from tests.unit.operator.histories.sweep_checks import SweepWatcher
from tests.unit.operator.histories.sweeps import (
    Programs,
    correct_sweep,
    create_sweep,
    is_sweep_over,
    stored_sweep,
)
from tests.unit.operator.histories.world import World

MILD: Final = (
    *("pod succeeds", "pod succeeds", "pod succeeds", "all pods succeed"),
    *("pod is deleted", "pod is deleted", "pod is deleted by force", "pod gets a finalizer"),
    *("pod is annotated", "pod becomes unready", "all pods become ready"),
    *("Service is deleted", "Service is edited", "ConfigMap is deleted"),
    *("job is suspended or resumed", "backoffLimit is edited", "priority is edited"),
    *("all goes well", "operator polls"),
)
"""Steps after which no index that succeeded is run again."""
ANY: Final = (
    *MILD,
    *("pod fails", "pod is evicted", "pod is preempted", "pod succeeds and is deleted by force"),
    *("pod loses its labels", "pod loses all labels", "Service loses its labels"),
    *("Service gets a finalizer", "another replica leads", "job is replaced"),
    *("spec becomes unreadable",),
    *("requests fail", "requests take long", "watches are cut", "operator restarts"),
    *("pods are refused",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of histories: the spec of its jobs, and the steps to choose from.

    Attributes:
        names: the names of the jobs.
        pods_in_queue: number of pods that have quota at the same time.
        is_varied: whether each history has only some of the steps, so that these meet more often.
        is_polled: whether the operator polls before the checks, which unwatched objects need.
    """

    spec: Callable[[Random], Object]
    steps: Sequence[str]
    is_undisturbed: bool = False
    is_queued: bool = False
    is_sent: bool = False
    allocation: Allocation | None = None
    is_scalable: bool = False
    is_sweeping: bool = False
    names: Sequence[str] = ("a",)
    pods_in_queue: int = UNLIMITED
    is_varied: bool = False
    is_polled: bool = False

    def some_steps(self, seed: int) -> Sequence[str]:
        """Return the steps of the history of a seed."""
        if not self.is_varied:
            return self.steps
        random, steps = Random(f"{seed} steps"), sorted({*self.steps})
        return random.sample(steps, random.randrange(3, len(steps) // 2))


DIRECT: Final = Allocation(binding=Binding.DIRECT)
UNDISTURBED: Final = Kind(spec=jobs.of_plain_tasks, steps=MILD, is_undisturbed=True)
PLAIN: Final = Kind(
    spec=jobs.of_plain_tasks,
    steps=(*ANY, "replicas are changed", "replicas are changed", "TTL is edited"),
)
GROUPS: Final = Kind(spec=jobs.of_groups, steps=(*ANY, "replicas are changed"))
COORDINATED: Final = Kind(spec=jobs.coordinated, steps=(*ANY, *("replicas are changed",) * 4))
ELASTIC: Final = Kind(
    spec=jobs.elastic,
    steps=(*ANY, *("replicas are changed",) * 2, "replica leaves by name", "restart is requested"),
)
QUEUED: Final = Kind(
    spec=jobs.of_any_type,
    steps=(*ANY, *("Kueue evicts", "replicas are changed") * 3, "Workload is deleted"),
    is_queued=True,
)
ALLOCATED: Final = Kind(
    spec=jobs.preemptible,
    steps=(
        *(*ANY, "replicas are changed", "replicas are changed"),
        *("node is cordoned", "node is lost", "node is lost", "nodes are added"),
    ),
    allocation=DIRECT,
)
QUEUED_AND_ALLOCATED: Final = Kind(
    spec=jobs.preemptible,
    steps=(*ALLOCATED.steps, *("Kueue evicts",) * 3, "Workload is deleted"),
    is_queued=True,
    allocation=DIRECT,
)
SCALABLE: Final = Kind(
    spec=jobs.scalable,
    steps=(
        *(*ANY, "replicas are changed", "replicas are changed"),
        *("DIJobTask is scaled",) * 6,
        *("DIJobTask is deleted", "DIJobTask is edited", "task gets or loses its DIJobTask"),
        "watches lose events",
    ),
    is_scalable=True,
)
UNWATCHED: Final = Kind(
    spec=jobs.with_unwatched_objects,
    steps=(
        *(*ANY, *("replicas are changed", "unwatched objects are deleted") * 4),
        *("unwatched objects are edited", "ProvisioningRequest fails"),
    ),
    is_polled=True,
)
DISPATCHED: Final = Kind(spec=jobs.dispatched, steps=QUEUED.steps, is_queued=True)
SENT: Final = Kind(
    spec=jobs.of_tasks,
    steps=(
        # What a user does to the job reaches it through the other cluster.
        *(each for each in ANY if each != "job is suspended or resumed"),
        *("Kueue evicts", "job is replaced") * 3,
    ),
    is_queued=True,
    is_sent=True,
)
IN_PLACE: Final = Kind(
    spec=jobs.restarted_in_place,
    steps=(*ANY, *("pod fails",) * 6, *("replicas are changed",) * 2, "restart is requested"),
)
LOSSY: Final = Kind(
    spec=jobs.of_any_type,
    steps=(*ANY, *("replicas are changed", "watches lose events") * 2),
)
MANY_PODS: Final = Kind(spec=jobs.of_many_pods, steps=ANY)
TWO_JOBS: Final = Kind(
    spec=jobs.of_tasks,
    steps=(*ANY, *("job is replaced",) * 4, *("replicas are changed",) * 2),
    names=("a", "b"),
)
TWO_QUEUED: Final = Kind(
    spec=jobs.elastic,
    steps=QUEUED.steps,
    is_queued=True,
    names=("a", "b"),
    pods_in_queue=12,
)
OF_SCHEDULER: Final = (
    *("scheduler refuses a node", "scheduler becomes slow", "scheduler goes on"),
    "another pod comes",
)
TWO_ALLOCATED: Final = Kind(
    spec=jobs.preemptible,
    steps=(*ALLOCATED.steps, *("priority is edited",) * 2),
    allocation=DIRECT,
    names=("a", "b"),
)
TWO_SCHEDULED: Final = Kind(
    spec=jobs.preemptible,
    steps=(*TWO_ALLOCATED.steps, *OF_SCHEDULER),
    allocation=Allocation(),
    is_varied=True,
    names=("a", "b"),
)
GANGS: Final = Kind(
    spec=jobs.preemptible_or_gang,
    steps=TWO_SCHEDULED.steps,
    allocation=Allocation(),
    is_varied=True,
    names=("a", "b", "c"),
)
PACKED: Final = Kind(
    spec=jobs.preemptible_or_gang,
    steps=(*TWO_SCHEDULED.steps, *("another pod comes",) * 3),
    allocation=Allocation(policy="binpack"),
    is_varied=True,
    names=("a", "b", "c"),
)
MEASURED: Final = Kind(
    spec=jobs.preemptible_or_gang,
    steps=(*TWO_SCHEDULED.steps, *("another pod comes",) * 2, *("job reports",) * 6),
    allocation=Allocation(policy="goodput"),
    is_varied=True,
    names=("a", "b", "c"),
)
SWEEPS: Final = Kind(
    spec=jobs.of_plain_tasks,
    steps=(
        *("pod succeeds", "pod fails", "pod fails", "pod is deleted", "pod is evicted"),
        *("all pods succeed", "pod gets a finalizer", "pod becomes unready", "all goes well"),
        *("requests fail", "requests take long", "watches are cut", "pods are refused"),
        *("operator restarts", "operator restarts", "another replica leads"),
        *("sweep is stopped", "sweep is replaced", "sweep becomes invalid", "sweep becomes valid"),
        *("parallelism is edited", "parallelism is edited", "maxTrials is edited"),
        *("trial is deleted", "trials are refused", "watches lose events"),
    ),
    is_sweeping=True,
)
SEEDS = st.integers(0, 2**32 - 1)
# A smaller seed is another history, not a simpler one.
PHASES: Final = (Phase.explicit, Phase.generate)
HISTORIES: Final = settings(phases=PHASES, max_examples=by_profile(brief=5, usual=20, thorough=60))
LARGE_HISTORIES: Final = settings(
    phases=PHASES, max_examples=by_profile(brief=3, usual=12, thorough=30)
)


@pytest.fixture(autouse=True, scope="module")
def errors_only() -> Iterator[None]:
    """Log only defects of the operator, with their tracebacks."""
    before, watches = structlog.get_config(), logging.getLogger("di_kube.cache")
    watches.setLevel(logging.ERROR)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    yield
    watches.setLevel(logging.NOTSET)
    structlog.configure(**before)


async def live(kind: Kind, seed: int) -> World:
    """Live through a history and check it; return the world at its end."""
    world = World(
        seed,
        kind.spec,
        is_scalable=kind.is_scalable,
        is_sweeping=kind.is_sweeping,
        is_queued=kind.is_queued,
        is_sent=kind.is_sent,
        allocation=kind.allocation,
        names=kind.names,
        pods_in_queue=kind.pods_in_queue,
    )
    watcher = (
        SweepWatcher(world)
        if kind.is_sweeping
        else Watcher(world, is_undisturbed=kind.is_undisturbed)
    )
    programs = Programs(world, Random(f"{seed} programs"))
    others = (
        *(world.run_kubelets(), world.run_garbage_collector()),
        *(world.run_kueue(), world.run_autoscaler(), world.run_scheduler(), programs.run()),
    )
    tasks = [asyncio.create_task(each) for each in others]
    steps = kind.some_steps(seed)
    try:
        await world.operator.start()
        for _ in range(world.random.randrange(3, 25)):
            await asyncio.sleep(world.random.choice([0.0, 0.01, 0.05, 0.3, 1.0, 3.0, 12.0]))
            world.turn = world.random.choice(world.names)
            if kind.is_sweeping:
                if stored_sweep(world) is None:
                    create_sweep(world)
            elif world.job is None:
                world.note(f"- job {world.turn} is created")
                world.create_job()
            await take(world, world.random.choice(steps))
        await _come_to_rest(world, watcher, programs, is_polled=kind.is_polled)
        for task in tasks:
            assert not task.done(), f"a part of the cluster has ended: {task.exception()!r}"
        assert not watcher.faults, "\n".join(watcher.faults)
    except Exception as error:
        trace = (f"{at:10.3f}  {text}" for at, text in world.trace)
        error.add_note("\n".join([f"seed {seed}", *trace]))
        raise
    finally:
        for task in tasks:
            task.cancel()
        await world.stop_operators()
    return world


async def _come_to_rest(
    world: World, watcher: Watcher, programs: Programs, *, is_polled: bool
) -> None:
    world.note("all goes well from now on")
    programs.are_working = False
    world.calm_down()
    correct_sweep(world)
    await asyncio.sleep(1.0)
    world.calm_down()
    if world.api.has_lost:
        await world.operator.poll()
    await asyncio.sleep(world.random.choice([29.0, 45.0]))
    if is_polled:
        # A refused object is tried again after a minute, and what was read of a job that waits is
        # used for 15 seconds, of one that runs for 30.
        await asyncio.sleep(60.0)
        await world.operator.poll()
        await asyncio.sleep(1.0)
    await watcher.rest(is_polled=is_polled)
    if world.allocation is not None and len(world.names) > 1:
        await allocation_checks.check(world, watcher.blame)
        await watcher.rest()
    world.note("the programs end")
    world.is_ending = programs.are_working = True
    await asyncio.sleep(45.0)
    await watcher.rest()
    if world.is_unfinished or not is_sweep_over(world):
        # What was refused for a minute is tried again after another one.
        await asyncio.sleep(150.0)
    watcher.check_end()


@HISTORIES
@given(SEEDS)
def test_no_succeeded_index_is_run_again_while_the_operator_runs(seed: int) -> None:
    virtual_time.run(live(UNDISTURBED, seed))


@HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_plain_tasks(seed: int) -> None:
    virtual_time.run(live(PLAIN, seed))


@HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_groups_and_rules(seed: int) -> None:
    virtual_time.run(live(GROUPS, seed))


@HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_coordinated_jobs(seed: int) -> None:
    virtual_time.run(live(COORDINATED, seed))


@HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_elastic_jobs(seed: int) -> None:
    virtual_time.run(live(ELASTIC, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_with_a_queue(seed: int) -> None:
    virtual_time.run(live(QUEUED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_preemptible_jobs(seed: int) -> None:
    virtual_time.run(live(ALLOCATED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_preemptible_jobs_with_a_queue(seed: int) -> None:
    virtual_time.run(live(QUEUED_AND_ALLOCATED, seed))


@LARGE_HISTORIES
# The part for DIJobTasks reads the job before the watch shows it.
@example(1773109406)
@given(SEEDS)
def test_nothing_is_left_to_do_for_scalable_tasks(seed: int) -> None:
    virtual_time.run(live(SCALABLE, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_a_poll_finds_what_is_left_to_do_for_unwatched_objects(seed: int) -> None:
    virtual_time.run(live(UNWATCHED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_that_another_cluster_runs(seed: int) -> None:
    virtual_time.run(live(DISPATCHED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_that_another_cluster_sends(seed: int) -> None:
    virtual_time.run(live(SENT, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_containers_restarted_in_place(seed: int) -> None:
    virtual_time.run(live(IN_PLACE, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_a_poll_finds_what_is_left_to_do_after_lost_events(seed: int) -> None:
    virtual_time.run(live(LOSSY, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_of_many_pods(seed: int) -> None:
    virtual_time.run(live(MANY_PODS, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_two_jobs(seed: int) -> None:
    virtual_time.run(live(TWO_JOBS, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_two_jobs_that_share_a_quota(seed: int) -> None:
    virtual_time.run(live(TWO_QUEUED, seed))


@LARGE_HISTORIES
# The spec of a job becomes unreadable while a pod of it is missing.
@example(1461169553)
# A suspended job is resumed after another one got its nodes.
@example(849693302)
# A job is preempted whose spec was edited since its dry run.
@example(3534322987)
# A job moves to the node of a pod that it gives up, and that has not ended yet.
@example(1516820286)
# An operator that starts knows no job of the pods that are left of a former one.
@example(3527031626)
@given(SEEDS)
def test_nothing_is_left_to_do_for_two_jobs_that_share_nodes(seed: int) -> None:
    virtual_time.run(live(TWO_ALLOCATED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_that_a_scheduler_binds(seed: int) -> None:
    virtual_time.run(live(TWO_SCHEDULED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_gangs_beside_preemptible_jobs(seed: int) -> None:
    virtual_time.run(live(GANGS, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_under_binpack(seed: int) -> None:
    virtual_time.run(live(PACKED, seed))


@LARGE_HISTORIES
@given(SEEDS)
def test_nothing_is_left_to_do_for_jobs_under_goodput(seed: int) -> None:
    virtual_time.run(live(MEASURED, seed))


@LARGE_HISTORIES
# A new leader reads the status of a sweep before it sees the trials that it counts.
@example(886245710)
@given(SEEDS)
def test_no_trial_of_a_sweep_is_lost_or_created_twice(seed: int) -> None:
    virtual_time.run(live(SWEEPS, seed))


def test_a_seed_gives_one_history() -> None:
    first, second = (virtual_time.run(live(PLAIN, 34)).trace for _ in range(2))
    assert len(first) > 10
    assert first == second
