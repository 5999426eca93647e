"""The node check of tasks that declare no command of their own; see docs/reference/dijob.md.

The program runs in the task's image, on Python 3.8 or newer. It imports only the standard library,
and numpy if the image has it. It measures a matrix product on the CPU, then the time of an
all-gather between two pods of the task on two nodes. Each measurement is repeated and the shortest
time counts, because other work on a node can disturb a single run.

All pods connect to the first pod, which assigns partners and collects the results. One pod of each
node takes part. In the second round the fastest pod exchanges with the slowest: a node that is slow
in both rounds was slow with two partners. Every wait has a timeout. A failure of the check is
reported, and the pod starts in any case.
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
"""Address that the program listens on. None: all IPv4 and IPv6 addresses of the pod."""
SECRET = "DI_JOB_SECRET"
"""Variable with the secret that only pods of the job have. Without the variable every connection is
accepted.
"""
REPORT = "/dev/termination-log"
NOBODY = "localhost"
"""Placeholder in the list of the task's pods for a pod that has ended."""

PRODUCTS = 5
ROUNDS = 2
STEPS = 10
BLOCK = 8 << 20
CHUNK = 256 << 10
EXCHANGE_SECONDS = 30.0
SPARE_SECONDS = 5.0
"""Seconds that a round may take beside its exchanges."""
MEETING_SECONDS = 2 * ROUNDS * (EXCHANGE_SECONDS + SPARE_SECONDS)
"""Seconds for everything after the pods have connected. A round has two exchanges in a row
at most.
"""
AGAIN_AFTER, AGAIN_AT_MOST = 0.2, 5.0
MOST_CALLS = 64
MOST_UNHEARD = 64
"""Maximum number of connections from one address that have not sent their first line. Pods of one
node can share an address.
"""


def plain_product() -> Any:
    """Multiply two matrices of 120 rows."""
    size = 120
    rows = [[float(row * column % 7) for column in range(size)] for row in range(size)]
    columns = [[row[at] for row in rows] for at in range(size)]
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in rows]


def numpy_product() -> Any:
    """Multiply two matrices of 1024 rows. Raises ImportError if numpy is missing."""
    numpy = importlib.import_module("numpy")
    square = numpy.arange(1024.0 * 1024.0).reshape(1024, 1024) / 1e6
    return square @ square


def fastest_product() -> float:
    """Return the shortest time of several matrix products, in seconds."""
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
    """Send one JSON line. A line without fields ends the exchange."""
    writer.write(json.dumps(words).encode() + b"\n")


def listening() -> socket.socket:
    """Return the socket that other pods connect to."""
    if ADDRESS is not None:
        return socket.create_server((ADDRESS, PORT))
    try:
        both: Any = {"family": socket.AF_INET6, "dualstack_ipv6": True}
        return socket.create_server(("", PORT), **both)
    except (OSError, ValueError):
        # The node has no IPv6.
        return socket.create_server(("", PORT))


def proven(secret: str, words: Any) -> Any:
    """Return the fields of a first line with a proof that the sender has the job's secret."""
    if not secret:
        return words
    text = json.dumps(words, sort_keys=True)
    return {**words, "proof": hmac.new(secret.encode(), text.encode(), "sha256").hexdigest()}


def is_proven(secret: str, said: Any) -> bool:
    """Return whether a first line comes from a pod of the job: whether its proof fits the
    secret.
    """
    words = {key: value for key, value in said.items() if key != "proof"}
    expected = proven(secret, words).get("proof", "")
    return not secret or hmac.compare_digest(expected, str(said.get("proof", "")))


async def hear(reader: asyncio.StreamReader) -> Any:
    """Wait for a line and return its fields. Raises ConnectionError, ValueError."""
    line = await reader.readline()
    if not line:
        raise ConnectionError("the connection was closed")
    said = json.loads(line)
    if not isinstance(said, dict):
        raise ValueError("no object")
    return said


async def both_are_here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the partner has reached the same step."""
    writer.write(b".")
    await writer.drain()
    await reader.readexactly(1)


async def give(writer: asyncio.StreamWriter) -> None:
    """Send a block of data."""
    chunk = bytes(CHUNK)
    for _ in range(BLOCK // CHUNK):
        writer.write(chunk)
        await writer.drain()


async def take(reader: asyncio.StreamReader) -> None:
    """Receive a block of data and discard it."""
    left = BLOCK
    while left:
        chunk = await reader.read(min(left, CHUNK))
        if not chunk:
            raise ConnectionError("the connection was closed")
        left -= len(chunk)


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
    """Exchange blocks with the partner; return the seconds until both have received one."""
    seconds = []
    await both_are_here(reader, writer)
    for _ in range(STEPS):
        began = time.perf_counter()
        await asyncio.gather(give(writer), take(reader))
        await both_are_here(reader, writer)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


class Member:
    """A pod, as the first pod records it."""

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
    """Pair members that have not met before, the first with the last.

    Return the pairs that exchange at once, then pairs of the remaining members with members that
    have had a partner.
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
    """The coordination that the first pod does: it waits for the others and assigns partners."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.members: dict[int, Member] = {}
        self.has_begun = False
        self.is_complete = asyncio.Event()

    def join(self, member: Member) -> None:
        """Add a pod, unless the exchanges have begun."""
        if self.has_begun or member.rank in self.members:
            say(member.writer, refused="too late, the other pods have met")
            member.writer.close()
            return
        self.members[member.rank] = member
        if len(self.members) >= self.expected:
            self.is_complete.set()

    async def hold(self, seconds: float) -> None:
        """Begin when all pods have joined, or after `seconds`."""
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
        """Return the members that exchange: one of each node, because pods of one node share its
        network. With one node only, return two of its pods, to check that pods reach each other at
        all.
        """
        members = [self.members[rank] for rank in sorted(self.members)]
        by_node: dict[str, Member] = {}
        for member in members:
            by_node.setdefault(member.node, member)
        return list(by_node.values()) if len(by_node) > 1 else members[:2]

    async def bring_together(self, one: Member, other: Member) -> None:
        """Let two members exchange, and record their results."""
        token = secrets.token_hex(8)
        say(one.writer, token=token, calls=False, **{"with": other.rank})
        say(other.writer, token=token, calls=True, **{"with": one.rank})
        one.met.add(other.rank)
        other.met.add(one.rank)
        await asyncio.gather(self.result_of(one), self.result_of(other))

    async def result_of(self, member: Member) -> None:
        """Record what a member reports of its exchange. A member that reports nothing is
        removed.
        """
        try:
            said = await asyncio.wait_for(hear(member.reader), EXCHANGE_SECONDS + SPARE_SECONDS)
            member.best = min(member.best, float(said.get("seconds", math.inf)))
        except Exception:  # whatever another pod does, all others go on
            del self.members[member.rank]
            member.writer.close()


class Participant:
    """The part of the check that every pod does, the first one included."""

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
        """Exchange with the assigned partners. Raises what prevents that."""
        if not self.rank:
            self.meeting = Meeting(sum(name != NOBODY for name in self.names))
        # The server ends with the process: closing it would wait for every open connection.
        self.server = await asyncio.start_server(
            # The default backlog would replace the one that the socket was created with.
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
        """Handle a connection by the purpose that its first line names."""
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
        """Return the first line of a connection. Raises ConnectionError if too many connections of
        its source are silent.
        """
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
        """Return the future of the connection for an exchange. The connection and the order can
        arrive in either sequence.
        """
        if token not in self.calls:
            if len(self.calls) >= MOST_CALLS:
                raise ConnectionError("too many calls")
            self.calls[token] = asyncio.get_running_loop().create_future()
        return self.calls[token]

    async def take_part(self) -> None:
        """Follow the orders of the first pod until it ends the check."""
        reader, writer, order = await self.join()
        while order:
            found: dict[str, Any] = {"with": int(order["with"])}
            try:
                seconds = await asyncio.wait_for(self.exchange_by(order), EXCHANGE_SECONDS)
                found["seconds"] = round(seconds, 6)
            except Exception as error:  # reported, whatever it is
                found["failed"] = type(error).__name__
            self.exchanges.append(found)
            say(writer, **found)
            order = await hear(reader)

    async def join(self) -> Any:
        """Connect to the first pod; return the connection and its first order. A connection that
        is closed before that is opened again: the first pod has been restarted, or had too many
        that said nothing. Raises TimeoutError, ConnectionError.
        """
        end, pause = time.monotonic() + self.wait, AGAIN_AFTER
        while True:
            reader, writer = await self.reach_the_first(end)
            say(writer, **proven(self.secret, {"rank": self.rank, "node": self.node}))
            try:
                order = await hear(reader)
            except ConnectionError:
                writer.close()
                if time.monotonic() >= end:
                    raise
            else:
                if "refused" in order:
                    raise ConnectionError(order["refused"])
                return reader, writer, order
            await asyncio.sleep(pause)
            pause = min(2 * pause, AGAIN_AT_MOST)

    async def exchange_by(self, order: Any) -> float:
        """Exchange with another pod; return the seconds. One of the two opens the connection."""
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

    async def reach_the_first(self, end: float) -> Any:
        """Connect to the first pod, which can start later. Raises TimeoutError."""
        pause = AGAIN_AFTER
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
    """Return the DNS names of the task's pods, by local index."""
    variable = f"DI_{variables['DI_TASK_NAME'].upper().replace('-', '_')}_NODES"
    text = variables.get(variable)
    if text is None:
        with open(variables[f"{variable}_FILE"]) as file:
            text = file.read()
    return str(text).split(",")


async def check(variables: Any) -> dict[str, Any]:
    """Run the check and return its report."""
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
    """Run the check and report. Exits the process, because a DNS lookup that hangs in a thread
    would not end.
    """
    text = json.dumps(await check(os.environ))
    print(text, flush=True)
    with open(REPORT, "w") as report:
        report.write(text)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())
