"""The check of a node for tasks without a command of their own; see docs/reference/dijob.md.

Its text runs in the task's own image, by whatever Python 3.8 or newer is there: nothing but the
standard library, and numpy if the image has it. It times a matrix product on the processor, then
how long pods of the task on two nodes take to give each other a block of data, an all-gather of
two. Of some times the least, since what else a node does for a moment is nothing to avoid it for.

All pods meet at the first of them: each keeps a connection to it, by which it is told whom to
exchange with, and says what came of it. One pod of each node takes part. In the second round the
fastest is with the slowest: who is slow in both was so with different partners. Every wait has an
end, and what goes wrong here is reported; the pod begins all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import importlib
import json
import math
import operator
import os
import secrets
import socket
import time
from typing import Any

PORT = 22271
ADDRESS: str | None = None
"""Where it listens; None: at all addresses of the pod, of both families."""
SECRET = "DI_JOB_SECRET"
"""Variable with what all pods of the job know; a pod of another job does not. Without it everybody
is listened to."""
REPORT = "/dev/termination-log"
NOBODY = "localhost"
"""In the list of the task's pods: one that has ended."""

PRODUCTS = 5
ROUNDS = 2
STEPS = 10
BLOCK = 8 << 20
CHUNK = 256 << 10
EXCHANGE_SECONDS = 30.0
SPARE_SECONDS = 5.0
"""For what is said beside exchanges."""
MEETING_SECONDS = 2 * ROUNDS * (EXCHANGE_SECONDS + SPARE_SECONDS)
"""For all that comes after the gathering: a round has two exchanges in a row at most."""
AGAIN_AFTER, AGAIN_AT_MOST = 0.2, 5.0
MOST_CALLS = 64
MOST_UNHEARD = 64
"""Connections of one address that have not said their first line; pods of one node may share it."""


def plain_product() -> Any:
    """Multiply two matrices of 120 rows."""
    size = 120
    rows = [[float(row * column % 7) for column in range(size)] for row in range(size)]
    columns = [[row[at] for row in rows] for at in range(size)]
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in rows]


def numpy_product() -> Any:
    """Multiply two matrices of 1024 rows. Raises ImportError without numpy."""
    numpy = importlib.import_module("numpy")
    square = numpy.arange(1024.0 * 1024.0).reshape(1024, 1024) / 1e6
    return square @ square


def fastest_product() -> float:
    """Seconds of the fastest of some products."""
    product = numpy_product
    try:
        product()
    except ImportError:
        product = plain_product
    seconds = []
    for _ in range(PRODUCTS):
        began = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def say(writer: asyncio.StreamWriter, **words: Any) -> None:
    """Send a line; one without words says that it is over."""
    writer.write(json.dumps(words).encode() + b"\n")


def listening() -> socket.socket:
    """The socket that other pods connect to."""
    if ADDRESS is not None:
        return socket.create_server((ADDRESS, PORT))
    try:
        both: Any = {"family": socket.AF_INET6, "dualstack_ipv6": True}
        return socket.create_server(("", PORT), **both)
    except (OSError, ValueError):
        # There is no IPv6.
        return socket.create_server(("", PORT))


def proven(secret: str, words: Any) -> Any:
    """The words of a first line, with a proof that who says them knows the secret."""
    if not secret:
        return words
    text = json.dumps(words, sort_keys=True)
    return {**words, "proof": hmac.new(secret.encode(), text.encode(), "sha256").hexdigest()}


def is_proven(secret: str, said: Any) -> bool:
    """Whether a first line is of a pod of the job."""
    words = {key: value for key, value in said.items() if key != "proof"}
    expected = proven(secret, words).get("proof", "")
    return not secret or hmac.compare_digest(expected, str(said.get("proof", "")))


async def hear(reader: asyncio.StreamReader) -> Any:
    """Wait for a line. Raises ConnectionError, ValueError."""
    line = await reader.readline()
    if not line:
        raise ConnectionError("the connection was closed")
    said = json.loads(line)
    if not isinstance(said, dict):
        raise ValueError("no object")
    return said


async def both_are_here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the other one has come as far."""
    writer.write(b".")
    await writer.drain()
    await reader.readexactly(1)


async def give(writer: asyncio.StreamWriter) -> None:
    """Send a block."""
    chunk = bytes(CHUNK)
    for _ in range(BLOCK // CHUNK):
        writer.write(chunk)
        await writer.drain()


async def take(reader: asyncio.StreamReader) -> None:
    """Receive a block; it is nowhere kept."""
    left = BLOCK
    while left:
        chunk = await reader.read(min(left, CHUNK))
        if not chunk:
            raise ConnectionError("the connection was closed")
        left -= len(chunk)


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Seconds that two need until each has the other's block; both measure the same."""
    seconds = []
    await both_are_here(reader, writer)
    for _ in range(STEPS):
        began = time.perf_counter()
        await asyncio.gather(give(writer), take(reader))
        await both_are_here(reader, writer)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


class Member:
    """A pod as the first one knows it."""

    def __init__(
        self, rank: int, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.rank = rank
        self.node = node
        self.reader = reader
        self.writer = writer
        self.met: set[int] = set()
        self.best = math.inf


def pairs_of(members: list[Member]) -> tuple[list[Any], list[Any]]:
    """Pair those who have not met, the first with the last: pairs that exchange at once, then
    pairs of who is left over with somebody who has had a partner.
    """
    free, left_over = list(members), []
    pairs, more = [], []
    while free:
        last = free.pop()
        partner = next((each for each in free if each.rank not in last.met), None)
        if partner is None:
            left_over.append(last)
        else:
            free.remove(partner)
            pairs.append((partner, last))
    helpers = [each for each in members if each not in left_over]
    for last in left_over:
        partner = next((each for each in helpers if each.rank not in last.met), None)
        if partner is not None:
            helpers.remove(partner)
            more.append((partner, last))
    return pairs, more


class Meeting:
    """What the first pod does for all: waits for them, and says who exchanges with whom."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.members: dict[int, Member] = {}
        self.has_begun = False
        self.is_complete = asyncio.Event()

    def join(self, member: Member) -> None:
        """Take in a pod, unless it is too late."""
        if self.has_begun or member.rank in self.members:
            member.writer.close()
            return
        self.members[member.rank] = member
        if len(self.members) >= self.expected:
            self.is_complete.set()

    async def hold(self, seconds: float) -> None:
        """Begin when all are there, or that time is over."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.is_complete.wait(), seconds)
        self.has_begun = True
        chosen = self.one_of_each_node()
        for _ in range(ROUNDS):
            for pairs in pairs_of([each for each in chosen if each.rank in self.members]):
                await asyncio.gather(*(self.bring_together(*pair) for pair in pairs))
            chosen.sort(key=lambda each: each.best)
        for member in self.members.values():
            say(member.writer)
            member.writer.close()

    def one_of_each_node(self) -> list[Member]:
        """Who exchanges: pods of one node would share its network. If there is one node only, two
        of its pods, to see whether pods reach each other at all.
        """
        members = [self.members[rank] for rank in sorted(self.members)]
        by_node: dict[str, Member] = {}
        for member in members:
            by_node.setdefault(member.node, member)
        return list(by_node.values()) if len(by_node) > 1 else members[:2]

    async def bring_together(self, one: Member, other: Member) -> None:
        """Have two exchange, and hear what came of it."""
        token = secrets.token_hex(8)
        say(one.writer, token=token, calls=False, **{"with": other.rank})
        say(other.writer, token=token, calls=True, **{"with": one.rank})
        one.met.add(other.rank)
        other.met.add(one.rank)
        await asyncio.gather(self.result_of(one), self.result_of(other))

    async def result_of(self, member: Member) -> None:
        """Take in what a pod says of an exchange; who says nothing is no member any more."""
        try:
            said = await asyncio.wait_for(hear(member.reader), EXCHANGE_SECONDS + SPARE_SECONDS)
            member.best = min(member.best, float(said.get("seconds", math.inf)))
        except Exception:  # whatever another pod does, all others go on
            del self.members[member.rank]
            member.writer.close()


class Participant:
    """What each pod does, the first one too."""

    def __init__(
        self, rank: int, names: list[str], node: str, wait: float, secret: str = ""
    ) -> None:
        self.rank = rank
        self.secret = secret
        self.names = names
        self.node = node or f"of rank {rank}"
        self.wait = wait
        self.exchanges: list[dict[str, Any]] = []
        self.meeting: Meeting | None = None
        self.calls: dict[str, asyncio.Future[Any]] = {}
        self.unheard: dict[str, int] = {}

    async def run(self) -> None:
        """Exchange with whom it is told to. Raises what keeps it from that."""
        if not self.rank:
            self.meeting = Meeting(sum(name != NOBODY for name in self.names))
        # It ends with the process: to close it would wait for whoever is connected.
        self.server = await asyncio.start_server(
            # Its own default would replace whatever the socket was made with.
            self.greet,
            sock=listening(),
            limit=CHUNK,
            backlog=1024,
        )
        if self.meeting is None:
            await self.take_part()
            return
        meeting = asyncio.ensure_future(self.meeting.hold(self.wait))
        try:
            await self.take_part()
        finally:
            await meeting

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection for what its first line says."""
        try:
            said = await self.first_line(reader, str(writer.get_extra_info("peername")[0]))
            if not is_proven(self.secret, said):
                writer.close()
            elif "token" in said:
                self.call(str(said["token"])).set_result((reader, writer))
            elif self.meeting is not None and 0 <= int(said["rank"]) < len(self.names):
                self.meeting.join(Member(int(said["rank"]), str(said["node"]), reader, writer))
            else:
                writer.close()
        except Exception:  # whoever it was
            writer.close()

    async def first_line(self, reader: asyncio.StreamReader, source: str) -> Any:
        """What a connection says first. Raises ConnectionError if too many of its source say
        nothing."""
        waiting = self.unheard.get(source, 0)
        if waiting >= MOST_UNHEARD:
            raise ConnectionError("too many connections that say nothing")
        self.unheard[source] = waiting + 1
        try:
            return await asyncio.wait_for(hear(reader), SPARE_SECONDS)
        finally:
            self.unheard[source] -= 1
            if not self.unheard[source]:
                del self.unheard[source]

    def call(self, token: str) -> asyncio.Future[Any]:
        """The connection for an exchange; whether it comes or the order first is chance."""
        if token not in self.calls:
            if len(self.calls) >= MOST_CALLS:
                raise ConnectionError("too many calls")
            self.calls[token] = asyncio.get_running_loop().create_future()
        return self.calls[token]

    async def take_part(self) -> None:
        """Follow the orders of the first pod until it is over."""
        reader, writer = await self.reach_the_first()
        say(writer, **proven(self.secret, {"rank": self.rank, "node": self.node}))
        while order := await hear(reader):
            found: dict[str, Any] = {"with": int(order["with"])}
            try:
                seconds = await asyncio.wait_for(self.exchange_by(order), EXCHANGE_SECONDS)
                found["seconds"] = round(seconds, 6)
            except Exception as error:  # reported, whatever it is
                found["failed"] = type(error).__name__
            self.exchanges.append(found)
            say(writer, **found)

    async def exchange_by(self, order: Any) -> float:
        """Exchange with another pod; one of the two calls."""
        if order["calls"]:
            name = self.names[order["with"]]
            reader, writer = await asyncio.open_connection(name, PORT, limit=CHUNK)
            say(writer, **proven(self.secret, {"token": order["token"]}))
        else:
            reader, writer = await self.call(order["token"])
        try:
            return await exchange(reader, writer)
        finally:
            writer.close()

    async def reach_the_first(self) -> Any:
        """Connect to the first pod, which may come later. Raises TimeoutError."""
        end, pause = time.monotonic() + self.wait, AGAIN_AFTER
        while True:
            connecting = asyncio.open_connection(self.names[0], PORT, limit=CHUNK)
            try:
                return await asyncio.wait_for(connecting, SPARE_SECONDS)
            except Exception as error:
                if time.monotonic() >= end:
                    words = f"the first pod was not there for {self.wait:g} s"
                    raise TimeoutError(f"{words} ({type(error).__name__})") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, AGAIN_AT_MOST)


def names_of_pods(variables: Any) -> list[str]:
    """The DNS names of the task's pods by their local index."""
    variable = f"DI_{variables['DI_TASK_NAME'].upper().replace('-', '_')}_NODES"
    text = variables.get(variable)
    if text is None:
        with open(variables[f"{variable}_FILE"]) as file:
            text = file.read()
    return str(text).split(",")


async def check(variables: Any) -> dict[str, Any]:
    """What is to be reported."""
    report: dict[str, Any] = {"seconds": round(fastest_product(), 6)}
    wait = float(variables.get("DI_NODE_CHECK_WAIT", 0))
    if wait <= 0:
        return report
    try:
        names, rank = names_of_pods(variables), int(variables["DI_TASK_RANK"])
        if len(names) == 1:
            return report
        participant = Participant(
            rank, names, variables.get("DI_NODE_NAME", ""), wait, variables.get(SECRET, "")
        )
        report["exchanges"] = participant.exchanges
        await asyncio.wait_for(participant.run(), 2 * wait + MEETING_SECONDS)
    except Exception as error:  # reported, whatever it is
        report["failed"] = (str(error) or type(error).__name__)[:120]
    return report


async def main() -> None:
    """Check and report; ends the process, for a resolver that hangs in a thread would not."""
    text = json.dumps(await check(os.environ))
    print(text, flush=True)
    with open(REPORT, "w") as report:
        report.write(text)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
