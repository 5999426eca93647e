"""Runs one plan: a workload with its faults, and what is left of it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from di_kube.errors import ApiError, Conflict, NotFound
from tools.faults.footprint import Footprint, complaints, read_events, read_state
from tools.faults.interruption import Aftermath
from tools.faults.journal import Done
from tools.faults.plan import Fault, Notice, Plan, Request
from tools.faults.scene import Scene, scene
from tools.faults.testbed import Object, Testbed
from tools.faults.workloads import REPLICAS, STORIES

# Seconds without a write after which nothing more will come, if all is as it should be.
QUIET = 0.8
# Seconds in which everything has to be as it should be after the workload's end: many polls.
PATIENCE = 120.0
# Seconds in which an interrupted replica has ended and another one leads, on a busy machine.
SUCCESSION = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one plan.

    Attributes:
        trouble: why the workload did not get to its end; None if it did.
        requests: what the first replica asked for, in order.
        notices: what the first replica was sent by its watches, in order.
        met: the plan's faults that happened.
        aftermath: of a stop or a freeze of the first replica; None if there was none.
    """

    plan: Plan
    footprint: Footprint
    trouble: str | None
    requests: tuple[Request, ...]
    notices: tuple[Notice, ...]
    met: tuple[Fault, ...]
    aftermath: Aftermath | None
    seconds: float
    logs: str


async def run(testbed: Testbed, plan: Plan, expected: Callable[[Footprint], bool]) -> Run:
    """Carry out a plan.

    ``expected`` tells whether a footprint is what is hoped for: the run is over as soon as it is,
    or when there is no hope any more. An API server that does not answer is trouble of this run
    alone.

    Raises:
        ApiError: before the run began.
    """
    trouble, footprint, aftermath, play = None, Footprint(state={}), None, None
    started = time.monotonic()
    replicas = 2 if plan.is_interrupted else REPLICAS.get(plan.workload, 1)
    try:
        async with scene(testbed, replicas=replicas, faults=plan.faults, title=plan.id) as play:
            if plan.is_interrupted:
                await play.standbys_wait()
            trouble = await _play(play, plan)
            footprint = await _settle(play, expected, started)
            aftermath = await play.aftermath(SUCCESSION)
    except TimeoutError:
        trouble = f"{trouble or 'played to its end'}; then SIGTERM did not end a replica"
    except ApiError as error:
        if play is None:
            raise
        trouble = f"{trouble or 'played to its end'}; then the API server: {error}"
    assert play is not None, f"{plan}: {trouble}"
    journal = play.replicas[0].proxy.journal
    return Run(
        plan=plan,
        footprint=replace(footprint, complaints=tuple(complaints(play.logs))),
        trouble=trouble,
        requests=tuple(done.request for done in journal.requests),
        notices=tuple(journal.notices),
        met=tuple(journal.met),
        aftermath=aftermath,
        seconds=time.monotonic() - started,
        logs=play.logs,
    )


async def _play(play: Scene, plan: Plan) -> str | None:
    try:
        if plan.ends is None:
            await STORIES[plan.workload](play)
        else:
            await _play_to_failure(play, plan)
    except AssertionError as error:
        return str(error)
    except (NotFound, Conflict) as error:
        return f"the workload itself: {error}"
    except TimeoutError:
        return "SIGTERM did not end a replica"
    return None


async def _play_to_failure(play: Scene, plan: Plan) -> None:
    """Go on with the workload only until the job has failed, for the reason foreseen."""

    def has_failed(status: Object) -> bool:
        return status.get("phase") == "Failed" and any(
            condition["reason"] == plan.ends for condition in status.get("conditions", ())
        )

    story = asyncio.ensure_future(STORIES[plan.workload](play))
    try:
        await play.reached(f"Failed, {plan.ends}", has_failed)
    finally:
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)


async def _settle(play: Scene, expected: Callable[[Footprint], bool], started: float) -> Footprint:
    """Wait until nobody writes any more and all is as it should be, or will never be."""
    end = time.monotonic() + PATIENCE
    while True:
        writes = [
            done.at
            for done in play.requests()
            if done.request.is_write and done.request.what != "leases"
        ]
        quiet = time.monotonic() - max(writes, default=started)
        busy = any(replica.proxy.under_way for replica in play.replicas)
        if not busy and quiet >= QUIET and all(replica.is_settled for replica in play.replicas):
            footprint = await _read(play)
            if expected(footprint) or time.monotonic() >= end:
                return footprint
        await asyncio.sleep(0.2)


async def _read(play: Scene) -> Footprint:
    client, namespace = play.testbed.client, play.namespace
    return Footprint(
        state=await read_state(client, namespace),
        creates=_carried_out(play.requests(), "create"),
        deletes=_carried_out(play.requests(), "delete"),
        pods=play.created(),
        events=await read_events(client, namespace),
    )


def _carried_out(done: list[Done], verb: str) -> Counter[str]:
    return Counter(
        f"{one.request.what}/{one.request.name}"
        for one in done
        if one.request.verb == verb
        and 200 <= one.code < 300
        and one.request.what not in ("events", "leases")
    )
