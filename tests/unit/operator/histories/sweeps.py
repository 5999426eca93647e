"""DISweeps of the histories: their specs by seed, what can happen to them, and their programs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

from di_api.field_error import InvalidSpec
from di_api.names import API_VERSION, KIND, REPORTED_STEP, SWEEP_KIND
from di_api.ownership import sweep_uid
from di_api.sweeps import load_sweep
from di_api.timestamps import format_time
from di_kube.errors import ApiError, Forbidden
from di_kube.resources import DIJOBS, DISWEEPS
from di_operator.sweeps.status import is_complete
from tests.unit.lifecycle.cluster_model import task
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import NAMESPACE, copied
from tests.unit.operator.histories.garbage import FOREGROUND, ORPHAN
from tests.unit.operator.histories.world import World

SWEEP: Final = "s"
SAMPLER: Final = "Random"
INVALID: Final = "Guess"
"""A sampler that makes the spec invalid."""
LAST_STEP: Final = 9
"""The step at which programs end."""
METRIC: Final = "episodeReturn"


def sweep_spec(random: Random) -> Object:
    """A sweep of a few trials, with early stopping or a population or neither."""
    tasks = [task("w", random.randrange(1, 3), type="learner")]
    template = {"tasks": tasks, "backoffLimit": random.choice([0, 1, 50])}
    spec: Object = {
        "objective": {"metric": METRIC},
        "sampler": SAMPLER,
        "parameters": [
            {"name": "lr", "environment": "LR", "uniform": {"min": 0, "max": 1}},
        ],
        "maxTrials": random.randrange(1, 5) * 2,
        "parallelism": random.randrange(1, 5),
        "maxFailedTrials": random.choice([0, 3, 99]),
        "template": {"spec": template},
    }
    if random.random() < 0.2:
        spec["maxSeconds"] = random.choice([20, 60])
    rule = random.choice(["earlyStopping", "earlyStopping", "population", None])
    if rule == "population":
        template["checkpoint"] = {"persistentVolumeClaim": "saved"}
        spec |= {"population": {"size": random.choice([2, 3]), "interval": 3}, "parallelism": 4}
        spec["maxTrials"] = random.choice([4, 8])
        return spec
    if rule is not None:
        spec[rule] = {"firstStep": 2, "reduction": 2}
    if random.random() < 0.3:
        spec["seeds"] = {"count": 2, "environment": "SEED"}
    return spec


def create_sweep(world: World) -> None:
    """Create the sweep, with another spec each time."""
    spec = sweep_spec(world.random)
    body = {
        "apiVersion": API_VERSION,
        "kind": SWEEP_KIND,
        "metadata": {"name": SWEEP},
        "spec": spec,
    }
    world.note(f"- sweep is created: { ({**spec, 'template': ...}) }")
    world.api.put(DISWEEPS, NAMESPACE, body)


def stored_sweep(world: World) -> Object | None:
    """Return a copy of the sweep, None if there is none."""
    found = world.api.stored(SWEEP_KIND).get(SWEEP)
    return None if found is None else copied(found)


def edit_sweep(world: World, **fields: Any) -> None:
    """Change fields of the spec, unless the webhook would refuse that."""
    if (body := stored_sweep(world)) is not None:
        body["spec"] |= fields
        if _is_valid(body) or "sampler" in fields:
            world.api.put(DISWEEPS, NAMESPACE, body)


def _is_valid(body: Object) -> bool:
    try:
        load_sweep(body)
    except InvalidSpec:
        return False
    return True


def correct_sweep(world: World) -> None:
    """Make the spec of the sweep valid again."""
    edit_sweep(world, sampler=SAMPLER)


async def replace_sweep(world: World) -> None:
    """Delete the sweep, and create another one of the same name as soon as it is gone."""
    body = stored_sweep(world)
    assert body is not None
    if (finalizer := world.random.choice([None, FOREGROUND, ORPHAN])) is None:
        world.api.request_deletion(SWEEP_KIND, SWEEP)
    else:
        since = format_time(world.clock.now())
        body["metadata"] |= {"finalizers": [finalizer], "deletionTimestamp": since}
        world.api.put(DISWEEPS, NAMESPACE, body)
    await asyncio.sleep(world.random.choice([0.0, 0.1, 3.0]))
    held_until = world.clock.monotonic() + 30.0
    while SWEEP in world.api.stored(SWEEP_KIND):
        if world.clock.monotonic() > held_until:
            world.api.remove_finalizers()
        await asyncio.sleep(0.3)
    create_sweep(world)


def delete_trial(world: World) -> None:
    if trials := [*world.api.stored(KIND)]:
        world.api.request_deletion(KIND, world.random.choice(trials))


def refuse_trials(world: World) -> None:
    """Refuse new jobs from now on, as a quota does."""

    def answer(verb: str, kind: str, name: str) -> ApiError | None:
        if verb != "create" or kind != KIND:
            return None
        return Forbidden(kind=kind, name=name, code=403, message="exceeded quota: team")

    world.api.before = answer


OF_SWEEPS: Final[Mapping[str, Callable[[World], Awaitable[None] | None]]] = {
    "sweep is stopped": lambda world: edit_sweep(world, stop=True),
    "parallelism is edited": lambda world: edit_sweep(
        world, parallelism=world.random.randrange(1, 6)
    ),
    "maxTrials is edited": lambda world: edit_sweep(
        world, maxTrials=world.random.randrange(1, 6) * 2
    ),
    "sweep becomes invalid": lambda world: edit_sweep(world, sampler=INVALID),
    "sweep becomes valid": correct_sweep,
    "sweep is replaced": replace_sweep,
    "trial is deleted": delete_trial,
    "trials are refused": refuse_trials,
}
"""Steps of sweeps."""


class Programs:
    """The programs of trials, which report and end.

    Attributes:
        are_working: whether they report.
    """

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self.are_working = True

    async def run(self) -> None:
        """Report steps until cancelled."""
        while True:
            await asyncio.sleep(self._random.choice([0.1, 0.5, 2.0]))
            for name, job in [*self._world.api.stored(KIND).items()]:
                is_running = (job.get("status") or {}).get("phase") == "Running"
                works = self.are_working and sweep_uid(job) is not None and is_running
                if works and self._random.random() < 0.4:
                    self._report(copied(job), name)

    def _report(self, job: Object, name: str) -> None:
        numbers = job["status"].get("profilings") or {}
        step = numbers.get("step", 0) + 1
        if step > LAST_STEP:
            for pod in self._pods(name):
                self._world.end(pod, 0)
            return
        saved = {REPORTED_STEP: step} if self._random.random() < 0.7 else {}
        value = round(self._random.random(), 3)
        job["status"]["profilings"] = {**numbers, "step": step, METRIC: value, **saved}
        self._world.api.put(DIJOBS, NAMESPACE, job)

    def _pods(self, name: str) -> Iterator[str]:
        for pod in self._world.pods_in("Running"):
            if pod.startswith(f"{name}-w-"):
                yield pod


def is_sweep_over(world: World) -> bool:
    """Return whether the sweep is complete."""
    body = stored_sweep(world)
    return body is None or is_complete(body)
