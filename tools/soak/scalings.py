"""Clients of di-server that read and scale jobs, and the history of what they were told."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import aiohttp

from tests.waiting import DEADLINE
from tools.soak.load import Tally
from tools.soak.stage import SERVER, Stage

CLIENTS: Final = 64
JOBS: Final = tuple(f"scaled-{number}" for number in range(16))
FIRST, LEAST, MOST = 2, 1, 12
"""Replicas of the task that is scaled; tight, so that bounds refuse some."""
READS: Final = 0.8
"""Share of requests."""
_SECONDS: Final = aiohttp.ClientTimeout(total=20)
_OK, _REFUSED = 200, 422
_LATER: Final = "503: "
_LATER_SECONDS: Final = 2.0
"""As its Retry-After says."""


@dataclass(slots=True, kw_only=True)
class Scalings:
    """64 clients; each asks one job's replicas, or scales it, by whichever server is next.

    Attributes:
        tally: a request has failed if it got neither 200 nor the 422 of a bound, and no kill and
            no busy API server explains that.
        histories: operations by job, as `tools/soak/go/linear` reads them.
    """

    stage: Stage
    session: aiohttp.ClientSession
    rng: Random
    tally: Tally = field(default_factory=Tally)
    histories: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {job: [] for job in JOBS}
    )
    refused: int = 0
    unknown: int = 0
    """Scalings whose answer never came: they may have taken effect or not."""
    _turns: Iterator[int] = field(default_factory=itertools.count)

    async def one(self, client: int, _number: int) -> None:
        """One request of a client."""
        job = JOBS[client % len(JOBS)]
        if self.rng.random() < READS:
            await self._send("GET", job, {}, {})
            return
        delta = self.rng.choice((-2, -1, 1, 2))
        method = "POST" if delta > 0 else "DELETE"
        call = time.monotonic_ns()
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        answer = await self._send(method, job, {"replicas": abs(delta)}, headers)
        self.histories[job].append(
            {
                "client": client,
                "call": call,
                "return": time.monotonic_ns(),
                "kind": "add",
                "delta": delta,
                **self._told(answer),
            }
        )

    def _told(self, answer: tuple[int, Any] | None) -> dict[str, Any]:
        if answer is None:
            self.unknown += 1
            return {"answer": "unknown", "value": 0}
        status, data = answer
        if status == _REFUSED:
            self.refused += 1
            return {"answer": "refused", "value": 0}
        return {"answer": "set", "value": data["replicas"]}

    async def _send(
        self, method: str, job: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, Any] | None:
        """Status and data of the answer, None without one.

        What a kill explains, and what the server asks for by 503 because the API server is busy,
        is sent again, to the next server and under the same key. All else is a failure.
        """
        began = time.monotonic()
        fault, asked = "", ""
        while time.monotonic() < began + DEADLINE:
            sent = time.monotonic()
            asked = self._another(asked)
            url = f"{asked}/v2alpha1/{self.stage.jobs}/{job}/replicas"
            status, data, fault = await self._ask(method, url, body, headers)
            if not fault:
                self.tally.seconds.append(time.monotonic() - began)
                return status, data
            if self.stage.kills[SERVER].explain(sent, time.monotonic()):
                self.tally.retried[fault] += 1
            elif fault.startswith(_LATER):
                self.tally.waited[fault] += 1
                await asyncio.sleep(_LATER_SECONDS)
            else:
                break
        self.tally.failed.append(fault)
        return None

    def _another(self, asked: str) -> str:
        """The server whose turn it is, but for the one that was asked before."""
        servers = [server for server in self.stage.servers if server != asked]
        return servers[next(self._turns) % len(servers)]

    async def _ask(
        self, method: str, url: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, Any, str]:
        try:
            async with self.session.request(
                method, url, json=body or None, headers=headers, timeout=_SECONDS
            ) as answer:
                said = await answer.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            # Without its text, which has the port.
            return 0, None, type(error).__name__
        is_expected = answer.status == _OK or (answer.status == _REFUSED and method != "GET")
        fault = "" if is_expected else f"{answer.status}: {said['message']}"
        return answer.status, said["data"], fault
