"""One soak: load, disturbances, and the judgement on what the load has seen."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp

from di_api.names import API_VERSION, DI_CONTAINER, KIND
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS
from tests.integration.conftest import ApiServer
from tools.lanes.progress import State, remaining, shown
from tools.soak import linear
from tools.soak.admissions import Admissions
from tools.soak.load import paced
from tools.soak.scalings import CLIENTS, FIRST, JOBS, LEAST, MOST, Scalings
from tools.soak.stage import OPERATOR, SERVER, WEBHOOK, Stage, stage

_ADMITTERS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much, how fast, and for how long at most."""

    seconds: float
    admissions: int
    admissions_a_second: float
    requests: int
    requests_a_second: float
    rounds: int | None = None
    """So often everything is rolled, rotated and killed, and then it is over; None: for ever."""
    seed: int = 0


async def soak(
    plan: Plan,
    *,
    config: KubeConfig,
    api_server: ApiServer,
    namespaces: tuple[str, str],
    folder: Path,
) -> dict[str, Any]:
    """Carry a plan out, with a line of progress twice a minute, and report.

    Args:
        plan: the load.
        config: the administrator's access to the API server.
        api_server: one with `stage.ROUTING`.
        namespaces: of the services, and of the jobs.
        folder: for logs and certificates.
    """
    program = await asyncio.to_thread(linear.checker)
    release, jobs = namespaces
    tls = aiohttp.TCPConnector(ssl=config.ssl_context(), limit=0)
    async with (
        KubeClient(config=config) as client,
        aiohttp.ClientSession(connector=tls) as to_api_server,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as to_servers,
        stage(client, api_server, release, jobs, folder) as here,
    ):
        for name in JOBS:
            await client.create(DIJOBS, _scaled(name), jobs)
        admissions = Admissions(stage=here, config=config, session=to_api_server)
        scalings = Scalings(stage=here, session=to_servers, rng=Random(plan.seed))
        began, done = time.monotonic(), asyncio.Event()

        def goes_on() -> bool:
            return time.monotonic() < began + plan.seconds and not done.is_set()

        def state() -> State:
            return _state(plan, time.monotonic() - began, here, admissions, scalings)

        loads = asyncio.gather(
            paced(
                admissions.tally,
                admissions.one,
                rate=plan.admissions_a_second,
                count=plan.admissions,
                workers=_ADMITTERS,
                goes_on=goes_on,
            ),
            paced(
                scalings.tally,
                scalings.one,
                rate=plan.requests_a_second,
                count=plan.requests,
                workers=CLIENTS,
                goes_on=goes_on,
            ),
        )
        try:
            with shown(state):
                for turn in _turns(here, plan.rounds):
                    if loads.done() or not goes_on():
                        break
                    await turn()
                done.set()
                await loads
        finally:
            loads.cancel()
        histories = {
            job: linear.history(
                scalings.histories[job],
                first=FIRST,
                least=LEAST,
                most=MOST,
                last=(await client.get(DIJOBS, job, jobs))["spec"]["tasks"][0]["replicas"],
            )
            for job in JOBS
        }
        verdicts = await asyncio.to_thread(linear.verdicts, program, histories)
        return _report(here, admissions, scalings, verdicts)


def _turns(here: Stage, rounds: int | None) -> Iterator[Callable[[], Awaitable[None]]]:
    """Roll and kill each service and rotate the authority, so often or for ever."""
    services = (WEBHOOK, SERVER, OPERATOR)
    turns: tuple[Callable[[], Awaitable[None]], ...] = (
        *(partial(here.roll, service) for service in services),
        here.rotate,
        *(partial(here.kill, service) for service in services),
    )
    return itertools.cycle(turns) if rounds is None else iter(turns * rounds)


def _state(
    plan: Plan, elapsed: float, here: Stage, admissions: Admissions, scalings: Scalings
) -> State:
    """How far the load is: it ends with its time, or when all is asked."""
    kills = sum(len(each.spans) for each in here.kills.values())
    admitted, asked = len(admissions.tally.seconds), len(scalings.tally.seconds)
    share = max(elapsed / plan.seconds, min(admitted / plan.admissions, asked / plan.requests))
    return State(
        share=share,
        text=(
            f"{admitted} of {plan.admissions} admissions, {asked} of {plan.requests} requests, "
            f"{here.graceful.total()} rolled, {kills} killed, {here.rotations} rotations; "
            f"{len(admissions.tally.failed) + len(scalings.tally.failed)} failed"
        ),
        left=remaining(share, elapsed),
    )


def _report(
    here: Stage, admissions: Admissions, scalings: Scalings, verdicts: dict[str, str]
) -> dict[str, Any]:
    broken = sorted(job for job, verdict in verdicts.items() if verdict != "Ok")
    wrong = [
        *(f"admission: {each}" for each in admissions.tally.failed),
        *(f"request: {each}" for each in scalings.tally.failed),
        *(f"history of {job}: {verdicts[job]}" for job in broken),
    ]
    return {
        "admissions": admissions.tally.report(),
        "requests": scalings.tally.report(),
        "rolled": dict(here.graceful),
        "killed": {service: len(kills.spans) for service, kills in here.kills.items()},
        "rotations": here.rotations,
        "linearizable": {
            "clients": CLIENTS,
            "histories": len(verdicts),
            "scalings": sum(map(len, scalings.histories.values())),
            "refused": scalings.refused,
            "without_answer": scalings.unknown,
            "broken": broken,
        },
        "wrong": wrong,
    }


def _scaled(name: str) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": DI_CONTAINER, "image": "none"}]}}
    task = {
        "name": "collector",
        "type": "collector",
        "replicas": FIRST,
        "minReplicas": LEAST,
        "maxReplicas": MOST,
        "template": template,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"tasks": [task]},
    }
