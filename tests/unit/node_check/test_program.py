"""The check that tasks get without one of their own: pods are processes, on loopback."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from di_node_check import program as default_node_check
from di_node_check.program import Meeting, Member, pairs_of
from tests.ports import held_port
from tests.waiting import DEADLINE, wait_until

RUN = """
import asyncio, json, sys
from di_node_check import program as check
given = json.loads(sys.argv[1])
for name, value in given["settings"].items():
    setattr(check, name, value)
check.fastest_product = lambda: 1.5
quick = check.give
async def give(writer):
    await asyncio.sleep(given["delay"])
    await quick(writer)
check.give = give
asyncio.run(check.main())
"""


def address(index: int) -> str:
    """Of a pod; pods of one machine share nothing but the port."""
    return f"127.22.7.{index + 1}"


class Pods:
    """Pods of a task, of which any may be started."""

    def __init__(self, folder: Path, stack: ExitStack, replicas: int) -> None:
        self.folder = folder
        self.stack = stack
        self.replicas = replicas
        self.port = stack.enter_context(held_port())
        self.started: dict[int, subprocess.Popen[bytes]] = {}

    def start(
        self,
        index: int,
        *,
        node: str | None = None,
        wait: float = DEADLINE,
        delay: float = 0.0,
        names: str | None = None,
        secret: str = "",
        **settings: Any,
    ) -> None:
        """Begin the check of a pod; `delay` is what it needs more for each block."""
        settings |= {"ADDRESS": address(index), "PORT": self.port, "BLOCK": 1 << 20, "STEPS": 2}
        settings["REPORT"] = str(self.folder / str(index))
        environment = {
            "DI_TASK_NAME": "train-all",
            "DI_TASK_RANK": str(index),
            "DI_TRAIN_ALL_NODES": names or ",".join(map(address, range(self.replicas))),
            "DI_NODE_NAME": f"n{index}" if node is None else node,
            "DI_NODE_CHECK_WAIT": str(wait),
            "DI_JOB_SECRET": secret,
            # So that its lines count where coverage is measured.
            **{key: each for key, each in os.environ.items() if key.startswith("COVERAGE_")},
        }
        given = json.dumps({"settings": settings, "delay": delay})
        process = subprocess.Popen([sys.executable, "-c", RUN, given], env=environment)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.started[index] = process

    def report(self, index: int) -> dict[str, Any]:
        """What a pod says at its end."""
        assert self.started[index].wait(DEADLINE) == 0
        said: dict[str, Any] = json.loads((self.folder / str(index)).read_text())
        return said

    def exchanges(self, index: int) -> list[dict[str, Any]]:
        """Those of a pod that nothing else has happened to."""
        said = self.report(index)
        assert ({*said}, said["seconds"]) == ({"seconds", "exchanges"}, 1.5)
        found: list[dict[str, Any]] = said["exchanges"]
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[Path, ExitStack]]:
    with ExitStack() as stack:
        yield tmp_path, stack


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/a-node-check-port-22271")
def test_a_pod_of_another_job_takes_no_part(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(0, secret="of this job")
    first = (address(0), pods.port)

    def listens() -> bool:
        with socket.socket() as sock:
            return not sock.connect_ex(first)

    wait_until(listens, what="the first pod to listen")
    own = default_node_check.proven("of another job", {"rank": 1, "node": "n1"})
    for words in ({"rank": 1, "node": "n1"}, {"token": "00"}, own):
        with socket.create_connection(first, DEADLINE) as stranger:
            stranger.sendall(json.dumps(words).encode() + b"\n")
            assert stranger.recv(1) == b""
    pods.start(1, secret="of this job")
    assert [each["with"] for each in pods.exchanges(0)] == [1]
    assert [each["with"] for each in pods.exchanges(1)] == [0]


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/a-node-check-port-22271")
def test_silent_connections_of_one_address_are_bounded(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(0, SPARE_SECONDS=DEADLINE)
    first = (address(0), pods.port)

    def connect(source: str) -> socket.socket | None:
        with suppress(ConnectionRefusedError):
            sock = socket.create_connection(first, DEADLINE, (source, 0))
            return folder[1].enter_context(sock)
        return None

    wait_until(lambda: connect("127.22.8.1"), what="the first pod to listen")
    silent = [connect("127.22.8.2") for _ in range(default_node_check.MOST_UNHEARD + 1)]
    refused = silent[-1]
    assert refused is not None
    assert refused.recv(1) == b""
    pods.start(1)
    assert [each["with"] for each in pods.exchanges(0)] == [1]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_listens_to_both_families(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_port() as port:
        monkeypatch.setattr(default_node_check, "PORT", port)
        with default_node_check.listening():
            socket.create_connection((host, port), DEADLINE).close()


def test_a_thousand_pods_reach_the_first_one_while_it_is_busy(
    folder: tuple[Path, ExitStack],
) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(0)
    first = (address(0), pods.port)

    def listens() -> bool:
        with socket.socket() as sock:
            return not sock.connect_ex(first)

    wait_until(listens, what="the first pod to listen")
    pods.started[0].send_signal(signal.SIGSTOP)
    with ExitStack() as connections:
        for _ in range(1000):
            connections.enter_context(socket.create_connection(first, DEADLINE))
    pods.started[0].send_signal(signal.SIGCONT)


def test_a_slow_pod_is_slow_with_both_its_partners(
    folder: tuple[Path, ExitStack],
) -> None:
    pods = Pods(*folder, replicas=5)
    for index in (3, 1, 0, 4, 2):
        pods.start(index, delay=0.3 if index == 3 else 0.0)
    exchanges = {index: pods.exchanges(index) for index in range(5)}
    for index, found in exchanges.items():
        partners = [each["with"] for each in found]
        assert len(set(partners)) >= 2, exchanges
        assert index not in partners
        for each in found:
            (other,) = [o for o in exchanges[each["with"]] if o["with"] == index]
            assert ("seconds" in each, "seconds" in other) == (True, True)
    assert all(each["seconds"] >= 0.3 for each in exchanges[3])


def test_two_pods_exchange_once(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(0)
    pods.start(1)
    assert [each["with"] for each in pods.exchanges(0)] == [1]
    assert [each["with"] for each in pods.exchanges(1)] == [0]


def test_one_pod_of_each_node_takes_part(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=4)
    for index in range(4):
        pods.start(index, node="a" if index < 3 else "b")
    found = {index: [each["with"] for each in pods.exchanges(index)] for index in range(4)}
    assert found == {0: [3], 1: [], 2: [], 3: [0]}


def test_two_pods_of_one_node_check_that_they_reach_each_other(
    folder: tuple[Path, ExitStack],
) -> None:
    pods = Pods(*folder, replicas=3)
    for index in range(3):
        pods.start(index, node="a")
    found = {index: [each["with"] for each in pods.exchanges(index)] for index in range(3)}
    assert found == {0: [1], 1: [0], 2: []}


def test_a_pod_that_never_comes_is_waited_for_a_bounded_time(
    folder: tuple[Path, ExitStack],
) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(0, wait=0.5)
    assert pods.exchanges(0) == []


def test_without_the_first_pod_nothing_is_exchanged(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(1, wait=0.5)
    said = pods.report(1)
    why = "the first pod was not there for 0.5 s (ConnectionRefusedError)"
    assert said == {"seconds": 1.5, "exchanges": [], "failed": why}


@pytest.mark.parametrize(("replicas", "wait"), [(1, 300), (2, 0)])
def test_a_single_pod_waits_for_no_other(
    folder: tuple[Path, ExitStack], replicas: int, wait: float
) -> None:
    pods = Pods(*folder, replicas=replicas)
    pods.start(0, wait=wait)
    assert pods.report(0) == {"seconds": 1.5}


def test_pods_that_have_ended_are_not_waited_for(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=3)
    names = f"{address(0)},localhost,{address(2)}"
    pods.start(0, names=names)
    pods.start(2, names=names)
    assert [each["with"] for each in pods.exchanges(0)] == [2]


def test_the_names_may_come_by_file(folder: tuple[Path, ExitStack]) -> None:
    path = folder[0] / "nodes"
    path.write_text("a,b")
    variables = {"DI_TASK_NAME": "a-b", "DI_A_B_NODES_FILE": str(path)}
    assert default_node_check.names_of_pods(variables) == ["a", "b"]


def test_a_pod_without_an_exchange_reports_it_and_starts(
    folder: tuple[Path, ExitStack],
) -> None:
    missing = {"DI_TASK_NAME": "a", "DI_TASK_RANK": "0", "DI_A_NODES_FILE": "/no/such/file"}
    said = asyncio.run(default_node_check.check({**missing, "DI_NODE_CHECK_WAIT": "9"}))
    assert "No such file" in said["failed"]

    pods = Pods(*folder, replicas=2)
    with socket.create_server((address(1), pods.port)):
        pods.start(1)
        said = pods.report(1)
    assert said["exchanges"] == []
    assert "address already in use" in said["failed"].lower()


def stranger(pods: Pods, index: int, *lines: object) -> socket.socket:
    """A connection to a pod that says these lines, as soon as that listens."""
    while True:
        try:
            found = socket.create_connection((address(index), pods.port), 60)
        except ConnectionRefusedError:
            assert pods.started[index].poll() is None
            continue
        break
    for line in lines:
        found.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    return found


def test_a_pod_that_vanishes_does_not_affect_the_others(
    folder: tuple[Path, ExitStack],
) -> None:
    pods = Pods(*folder, replicas=4)
    left = (0, 2, 3)
    for index in left:
        pods.start(index)
    with stranger(pods, 0, {"rank": 1, "node": "n1"}) as gone:
        # It gets a partner to wait for, and goes.
        order = json.loads(gone.makefile().readline())
        assert (order["with"], order["calls"]) == (2, False)
    found = {index: pods.exchanges(index) for index in left}
    assert found[2][0] == {"with": 1, "failed": "ConnectionRefusedError"}
    assert all([each for each in found[index] if "seconds" in each] for index in left)


def test_connections_of_other_programs_change_nothing(folder: tuple[Path, ExitStack]) -> None:
    pods = Pods(*folder, replicas=2)
    pods.start(0)
    lines: tuple[object, ...] = (b"GET / HTTP/1.1\r\n\r\n", [], {}, {"rank": -1, "node": "a"})
    more = ({"rank": 2, "node": "a"}, {"rank": "x"}, {"token": ["a"]}, b"\xff\n", b"1" * (1 << 20))
    with ExitStack() as stack:
        for line in (*lines, *more):
            stack.enter_context(stranger(pods, 0, line))
        for _ in range(2 * default_node_check.MOST_CALLS):
            stack.enter_context(stranger(pods, 0, {"rank": 7}))
        pods.start(1)
        assert [each["with"] for each in pods.exchanges(0)] == [1]
        assert [each["with"] for each in pods.exchanges(1)] == [0]


def first_pod(pods: Pods, *answers: bytes) -> None:
    """In the place of the first pod: answers one connection after the other, and closes it."""
    with socket.create_server((address(0), pods.port)) as server:
        pods.start(1)
        for answer in answers:
            with server.accept()[0] as accepted:
                assert json.loads(accepted.makefile().readline()) == {"rank": 1, "node": "n1"}
                accepted.sendall(answer)


def test_a_connection_that_is_closed_before_the_first_order_is_opened_again(
    folder: tuple[Path, ExitStack],
) -> None:
    pods = Pods(*folder, replicas=2)
    first_pod(pods, b"", b"{}\n")
    assert pods.exchanges(1) == []


def test_a_pod_that_comes_when_the_others_have_met_says_so(
    folder: tuple[Path, ExitStack],
) -> None:
    meeting = Meeting(2)
    meeting.has_begun = True
    heard = Hearing()
    meeting.join(Member(1, "n1", heard, heard))  # type: ignore[arg-type]  # what is used of it
    pods = Pods(*folder, replicas=2)
    first_pod(pods, heard.said)
    assert pods.report(1)["failed"] == "too late, the other pods have met"


class Silent:
    """A connection that carries nothing."""

    def write(self, _: bytes) -> None:
        pass

    def close(self) -> None:
        pass


class Hearing(Silent):
    """A connection that keeps what is written to it."""

    said = b""

    @override
    def write(self, said: bytes) -> None:
        self.said += said


def members(count: int) -> list[Member]:
    silent: Any = Silent()
    return [Member(rank, f"n{rank}", silent, silent) for rank in range(count)]


class Rehearsal(Meeting):
    """A meeting whose exchanges take as long as the slower of two nodes."""

    def __init__(self, nodes: list[float]) -> None:
        super().__init__(len(nodes))
        self.nodes = nodes
        self.pairs: list[tuple[int, int]] = []
        self.busy: set[int] = set()

    @override
    async def bring_together(self, one: Member, other: Member) -> None:
        assert not self.busy & {one.rank, other.rank}
        self.busy |= {one.rank, other.rank}
        self.pairs.append((one.rank, other.rank))
        one.met.add(other.rank)
        other.met.add(one.rank)
        seconds = max(self.nodes[one.rank], self.nodes[other.rank])
        one.best, other.best = min(one.best, seconds), min(other.best, seconds)
        await asyncio.sleep(0)
        self.busy -= {one.rank, other.rank}


def held(nodes: list[float]) -> Rehearsal:
    async def hold() -> Rehearsal:
        meeting = Rehearsal(nodes)
        for member in members(len(nodes)):
            meeting.join(member)
        await meeting.hold(DEADLINE)
        return meeting

    return asyncio.run(hold())


def test_the_second_round_pairs_the_fastest_with_the_slowest() -> None:
    meeting = held([1.0, 1.1, 5.0, 1.3])
    assert meeting.pairs[:2] == [(0, 3), (1, 2)]
    # 0 and 3 were fastest, 2 made 1 as slow as itself.
    assert {frozenset(pair) for pair in meeting.pairs[2:]} == {frozenset((0, 2)), frozenset((3, 1))}


@given(st.lists(st.sampled_from([1.0, 2.0, 9.0, math.inf]), min_size=1, max_size=12))
def test_each_pod_meets_two_others_and_none_twice(nodes: list[float]) -> None:
    meeting = held(nodes)
    assert len({frozenset(pair) for pair in meeting.pairs}) == len(meeting.pairs)
    if len(nodes) >= 3:
        assert all(len(member.met) >= 2 for member in meeting.members.values())
    if 4 * sum(seconds > 1.0 for seconds in nodes) <= len(nodes) > 1:
        # So few that no pod has had two slow partners.
        assert [meeting.members[rank].best for rank in range(len(nodes))] == nodes


def test_two_pods_that_have_met_form_no_further_pair() -> None:
    one, other = members(2)
    one.met, other.met = {1}, {0}
    assert pairs_of([one, other]) == ([], [])
