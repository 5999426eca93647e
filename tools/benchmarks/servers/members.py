"""How soon a change on the members' board is seen by all who wait for one.

A thousand pods of one job each say that they are there, every ten seconds, and each waits for news
at one of three di-servers, as a program does: it asks again with the generation that it was told.
Then one of them says something new, again and again once all wait, and it counts when the last one
has read it. In the end one server is killed, and its clients go to the others. Pods are objects
without a kubelet; what they would send comes from their addresses, 127.10.0.0/16.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, SupportsIndex, TypedDict

from typing_extensions import override

from di_kube.config import load_config
from di_kube.resources import SERVICE_ACCOUNTS
from di_kube.sync import SyncKubeClient
from di_server.members.entry import HEARTBEAT
from tests.integration.di_server import Object, ServerProcess, new_job, new_pod, running_servers
from tests.integration.service_accounts import token_of
from tests.waiting import wait_until_async
from tools.benchmarks import processes, samples
from tools.benchmarks.samples import Spread
from tools.benchmarks.testbed import Testbed

MEMBERS = 1000
SERVERS = 3
_WAIT = 20
_DEADLINE = 120.0
_PAUSE = 1.0
_QUIET_SECONDS = 3.0
"""Longer than a board rests after it has told all."""
_WAITING = re.compile(rb"^di_server_members_waiting (\S+)", re.MULTILINE)
_ENTRIES = re.compile(rb"^di_server_members (\S+)", re.MULTILINE)


class MembersResult(TypedDict):
    """Times in milliseconds, from when a pod begins to say something new."""

    members: int
    servers: int
    seen_by_all_ms: Spread
    seen_ms: Spread
    """By each of all."""
    seen_by_all_after_kill_ms: Spread
    """With a server less."""
    waiting_after_kill_s: float
    """From the kill until all wait at the others."""
    cpu_share: float
    """Of one core, by all servers, while nothing happens but heartbeats and waiting."""
    server_memory_mib: float
    """Of the largest."""


async def measure(testbed: Testbed, *, members: int, rounds: int) -> MembersResult:
    """Change `rounds` times with all servers, and as often with one less."""
    namespace = await testbed.namespace()
    with (
        tempfile.TemporaryDirectory() as folder,
        SyncKubeClient(config=load_config(str(testbed.kubeconfig))) as kube,
    ):
        job, names = await asyncio.to_thread(pods_of_a_job, kube, namespace, members)
        token = Path(folder, "token")
        token.write_text(_token(kube, namespace))
        with running_servers(
            SERVERS,
            Path(folder),
            testbed.kubeconfig,
            together=True,
            auth="optional",
            peer_token_file=str(token),
        ) as servers:
            return await _measure(servers, job, names, rounds)


async def _measure(
    servers: Sequence[ServerProcess], job: Object, names: Sequence[str], rounds: int
) -> MembersResult:
    path = servers[0].members_of(job).removeprefix(servers[0].url)
    crowd = [
        _Member(number, name, path, servers, number % len(servers))
        for number, name in enumerate(names)
    ]
    async with asyncio.TaskGroup() as group:
        beats = [group.create_task(_beat(crowd, lane)) for lane in range(8)]
        await _until(servers, _ENTRIES, [len(crowd)] * len(servers), what="all to be known")
        waits = [group.create_task(each.wait()) for each in crowd]
        await _all_wait(servers, len(crowd))
        pids = [pid for server in servers for pid in processes.family(server.process.pid)]
        cpu, began = sum(map(processes.cpu_seconds, pids)), time.monotonic()
        await asyncio.sleep(HEARTBEAT)
        cpu = sum(map(processes.cpu_seconds, pids)) - cpu
        share = cpu / (time.monotonic() - began)
        last, each = await _changes(crowd, servers, range(1, rounds + 1))
        memory = max(
            sum(map(processes.shared_memory_mib, processes.family(server.process.pid)))
            for server in servers
        )
        await asyncio.to_thread(servers[-1].kill)
        killed = time.monotonic()
        await _all_wait(servers[:-1], len(crowd))
        back = time.monotonic() - killed
        after, _ = await _changes(crowd, servers[:-1], range(rounds + 1, 2 * rounds + 1))
        for task in (*beats, *waits):
            task.cancel()
    return {
        "members": len(crowd),
        "servers": len(servers),
        "seen_by_all_ms": samples.spread(last),
        "seen_ms": samples.spread(each),
        "seen_by_all_after_kill_ms": samples.spread(after),
        "waiting_after_kill_s": round(back, 1),
        "cpu_share": round(share, 3),
        "server_memory_mib": round(memory, 1),
    }


class _Member:
    """One pod's program."""

    def __init__(
        self, number: int, name: str, path: str, servers: Sequence[ServerProcess], at: int
    ) -> None:
        self.address = address_of(number)
        self._number = number
        self.seen: dict[int, float] = {}
        """When it read of each change."""
        self._name = name
        self._path = path
        self._servers = servers
        self._at = at
        self._says: dict[str, Any] = {"url": f"http://{self.address}:8000", "change": 0}

    async def put(self, server: ServerProcess, change: int | None = None) -> None:
        """Say that it is there."""
        if change is not None:
            self._says["change"] = change
        body = json.dumps(self._says).encode()
        reader, writer = await self._connect(server)
        writer.write(
            f"PUT {self._path}/{self._name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        answer = await reader.read()
        writer.close()
        if not answer:
            raise ConnectionResetError("killed meanwhile")
        assert answer.startswith(b"HTTP/1.1 200 "), answer

    async def beat(self) -> None:
        """Say so to whichever server lives."""
        for server in islice(cycle(self._servers), self._at, self._at + 2 * len(self._servers)):
            with contextlib.suppress(OSError):
                await self.put(server)
                return

    async def wait(self) -> None:
        """Ask for news for ever, at another server when one does not answer any more."""
        known = ""
        while True:
            try:
                reader, writer = await self._connect(self._servers[self._at])
                with contextlib.closing(writer):
                    while True:
                        asked = time.monotonic()
                        before, known = known, await self._ask(reader, writer, known)
                        if known == before and time.monotonic() - asked < _PAUSE:
                            # There was no place.
                            await asyncio.sleep(_PAUSE)
            except (OSError, asyncio.IncompleteReadError):
                # To any of the others, as a Service would have it.
                step = 1 + self._number // len(self._servers) % (len(self._servers) - 1)
                self._at = (self._at + step) % len(self._servers)

    async def _ask(self, reader: _Reader, writer: asyncio.StreamWriter, known: str) -> str:
        query = f"?changes=true&wait={_WAIT}" + (f"&generation={known}" if known else "")
        writer.write(f"GET {self._path}{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        assert found, head
        body = await reader.readexactly(int(found[1]))
        assert head.startswith(b"HTTP/1.1 200 "), body
        data = json.loads(body)["data"]
        for member in data["members"]:
            self.seen.setdefault(member["says"]["change"], reader.came)
        generation: str = data["generation"]
        return generation

    async def _connect(self, server: ServerProcess) -> tuple[_Reader, asyncio.StreamWriter]:
        loop, reader = asyncio.get_running_loop(), _Reader()
        transport, protocol = await loop.create_connection(
            lambda: asyncio.StreamReaderProtocol(reader),
            "127.0.0.1",
            server.ports[0],
            local_addr=(self.address, 0),
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _Reader(asyncio.StreamReader):
    """Knows when the last bytes came: what a thousand clients do with theirs goes one by one here,
    and at a thousand places in a cluster."""

    came = 0.0

    @override
    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.came = time.perf_counter()
        super().feed_data(data)


async def _changes(
    crowd: Sequence[_Member], servers: Sequence[ServerProcess], changes: range
) -> tuple[list[float], list[float]]:
    """Seconds until the last one has read each change, and until each one has."""
    last, every = [], []
    for change in changes:
        await _all_wait(servers, len(crowd))
        await asyncio.sleep(_QUIET_SECONDS)
        await _all_wait(servers, len(crowd))
        began = time.perf_counter()
        await crowd[change % len(crowd)].put(servers[change % len(servers)], change)
        async with asyncio.timeout(_DEADLINE):
            while not all(change in each.seen for each in crowd):
                await asyncio.sleep(0.01)
        times = [each.seen[change] - began for each in crowd]
        last.append(max(times))
        every += times
    return last, every


async def _beat(crowd: Sequence[_Member], lane: int) -> None:
    """Have every eighth member say that it is there, spread over the period."""
    mine = crowd[lane::8]
    for each in mine:
        await each.beat()
    while True:
        for each in mine:
            began = time.monotonic()
            await each.beat()
            await asyncio.sleep(max(0.0, HEARTBEAT / len(mine) - (time.monotonic() - began)))


async def _all_wait(servers: Sequence[ServerProcess], count: int) -> None:
    async def all_wait() -> bool:
        return sum([await _metric(server, _WAITING) for server in servers]) == count

    await wait_until_async(all_wait, _DEADLINE, what="all to wait", every=0.2)


async def _until(
    servers: Sequence[ServerProcess], what_for: re.Pattern[bytes], values: list[int], *, what: str
) -> None:
    async def so_many() -> bool:
        return [await _metric(server, what_for) for server in servers] == values

    await wait_until_async(so_many, _DEADLINE, what=what, every=0.2)


async def _metric(server: ServerProcess, pattern: re.Pattern[bytes]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[1])
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = await reader.read()
    writer.close()
    found = pattern.search(text)
    assert found, text
    return int(float(found[1]))


def pods_of_a_job(kube: SyncKubeClient, namespace: str, count: int) -> tuple[Object, list[str]]:
    """Create a job and its pods; return it, and their names."""
    job = new_job(kube, namespace)
    return job, [
        new_pod(kube, job, number, address_of(number))["metadata"]["name"]
        for number in range(count)
    ]


def address_of(number: int) -> str:
    """Return the address of a pod."""
    return f"127.10.{number // 250}.{number % 250 + 1}"


def _token(kube: SyncKubeClient, namespace: str) -> str:
    kube.create(SERVICE_ACCOUNTS, {"metadata": {"name": "di-server"}}, namespace)
    return token_of(kube, namespace, "di-server", audience="di-server")
