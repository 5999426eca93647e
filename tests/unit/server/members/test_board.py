"""The members' board: which entry holds, how long, and by which tag a state is known."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from di_server.members import board as rules
from di_server.members.board import Answer, Board
from di_server.members.entry import LIFETIME, Entry
from di_server.problems import Busy, OutOfBounds


def entry(pod: str = "a-0", says: object = None, version: int = 1, **more: Any) -> Entry:
    told = json.dumps(says or {"url": f"http://{pod}"}, separators=(",", ":")).encode()
    values = {"namespace": "rl", "job_uid": "job", "pod": pod, "pod_uid": f"uid-{pod}", "task": "a"}
    return Entry(**{**values, **more}, says=told, version=version)


def always(_: Entry) -> bool:
    return True


def put(board: Board, *entries: Entry, heard: float = 0.0, source: str | None = None) -> None:
    for each in entries:
        board.put(each, always, heard=heard, source=source)


def shown(answer: Answer) -> dict[str, Any]:
    """What each pod says."""
    return {found["pod"]: found["says"] for found in map(json.loads, answer.members)}


@pytest.fixture
def board() -> Board:
    return Board()


def test_an_answer_has_generation_members_and_gone(board: Board) -> None:
    put(board, entry("a-1", {"url": "http://x", "weightVersion": 7}), entry("a-0"))
    answer = board.answer("job", None)
    assert json.loads(bytes_of(answer)) == {
        "generation": board.generation("job", None),
        "complete": True,
        "members": [
            {"pod": "a-0", "uid": "uid-a-0", "task": "a", "says": {"url": "http://a-0"}},
            {
                "pod": "a-1",
                "uid": "uid-a-1",
                "task": "a",
                "says": {"url": "http://x", "weightVersion": 7},
            },
        ],
        "gone": [],
    }


def bytes_of(answer: Answer) -> bytes:
    import orjson  # noqa: PLC0415  only a Fragment needs it here

    return orjson.dumps(answer.data.data)


def test_the_newest_entry_of_a_pod_holds_in_any_order() -> None:
    # Two of them have one version: all servers choose the same of them.
    entries = [entry(says={"url": "http://x", "n": n}, version=min(n, 3)) for n in range(5)]
    tags = set()
    for seed in range(20):
        board = Board()
        random.Random(seed).shuffle(entries)
        put(board, *entries, *entries)
        assert shown(board.answer("job", None))["a-0"]["n"] in (3, 4)
        tags.add(board.generation("job", None))
    assert len(tags) == 1


def test_versions_grow_although_the_clock_goes_back(board: Board) -> None:
    assert board.version_after("uid-a-0", 500) == 500
    put(board, entry(version=900))
    assert board.version_after("uid-a-0", 500) == 901
    assert board.version_after("uid-a-0", 1000) == 1000


def test_a_generation_depends_on_the_members_alone() -> None:
    boards = Board(), Board()
    put(boards[0], entry("a-0"), entry("a-1"), entry("b-0", task="b"))
    put(boards[1], entry("b-0", task="b", version=8), entry("a-1", version=3), heard=9.0)
    put(boards[1], entry("a-0", {"url": "http://other"}), entry("a-0", version=2), source="peer")
    for task in (None, "a", "b", "c"):
        assert boards[0].generation("job", task) == boards[1].generation("job", task)
    tags = {boards[0].generation("job", task) for task in (None, "a", "b", "c")}
    assert len(tags) == 4


def test_a_heartbeat_changes_no_generation_and_another_entry_does(board: Board) -> None:
    put(board, entry())
    assert board.take_news() == {"job"}
    before = board.generation("job", None)
    put(board, entry(version=2), heard=5.0)
    assert (board.take_news(), board.generation("job", None)) == (set(), before)
    put(board, entry(says={"url": "http://new"}, version=3))
    assert board.take_news() == {"job"}
    assert board.generation("job", None) != before


def test_another_pod_of_the_name_changes_the_generation(board: Board) -> None:
    put(board, entry())
    before = board.generation("job", None)
    put(board, entry(pod_uid="uid-2"))
    board.judge("uid-a-0", lambda each: each.pod_uid == "uid-2")
    assert board.generation("job", None) != before
    assert shown(board.answer("job", None)) == {"a-0": {"url": "http://a-0"}}


@pytest.mark.proves("rest.md#members", "roles.md#the-members-board")
def test_an_entry_without_heartbeats_expires(board: Board) -> None:
    put(board, entry("a-0"), entry("a-1"))
    put(board, entry("a-1", version=2), heard=10.0)
    board.take_news()
    board.sweep(LIFETIME - 0.1, always)
    assert not board.take_news()
    board.sweep(LIFETIME, always)
    assert board.take_news() == {"job"}
    assert list(shown(board.answer("job", None))) == ["a-1"]
    board.sweep(LIFETIME + 10.0, always)
    assert len(board) == 0
    assert board.generation("job", None) == Board().generation("job", None)


def test_an_entry_appears_and_goes_with_its_pod() -> None:
    board, pods = Board(), {"uid-a-0"}

    def lives(each: Entry) -> bool:
        return each.pod_uid in pods

    board.put(entry("a-0"), lives, heard=0.0)
    board.put(entry("a-1"), lives, heard=0.0)
    # The watch has not shown it yet.
    assert list(shown(board.answer("job", None))) == ["a-0"]
    pods.add("uid-a-1")
    board.judge("uid-a-1", lives)
    assert list(shown(board.answer("job", None))) == ["a-0", "a-1"]
    pods.remove("uid-a-0")
    board.judge("uid-a-0", lives)
    assert list(shown(board.answer("job", None))) == ["a-1"]
    pods.clear()
    board.sweep(1.0, lives)
    assert shown(board.answer("job", None)) == {}


def test_changes_since_a_generation_are_answered(board: Board) -> None:
    put(board, entry("a-0"), entry("a-1"), entry("b-0", task="b"))
    states = {None: board.generation("job", None), "a": board.generation("job", "a")}
    put(board, entry("a-1", {"url": "http://new"}, version=2), entry("b-1", task="b"))
    board.judge("uid-a-0", lambda _: False)
    for task, changed in ((None, ["a-1", "b-1"]), ("a", ["a-1"])):
        answer = board.answer("job", task, states[task])
        assert (answer.complete, list(shown(answer)), answer.gone) == (False, changed, ("a-0",))
        assert answer.generation == board.generation("job", task)
        nothing = board.answer("job", task, answer.generation)
        assert (nothing.complete, nothing.members, nothing.gone) == (False, (), ())
    # Of another server, or of long ago.
    assert board.answer("job", None, "unknown").complete
    assert board.answer("job", None).complete


def test_changes_make_any_known_state_the_present_one() -> None:
    """A client that applies each answer to its state has all members."""
    for seed in range(30):
        rng, board = random.Random(seed), Board()
        known: dict[str, dict[str, Any]] = {}
        living = {"uid-b-0"}

        def lives(each: Entry, living: set[str] = living) -> bool:
            return each.pod_uid in living

        put(board, entry("b-0"))
        for step in range(1, 60):
            pod = f"a-{rng.randrange(6)}"
            if rng.random() < 0.3:
                living.discard(f"uid-{pod}")
                board.judge(f"uid-{pod}", lives)
            else:
                living.add(f"uid-{pod}")
                says = {"url": "http://x", "n": rng.randrange(3)}
                board.put(entry(pod, says, version=step), lives, heard=0.0)
                board.judge(f"uid-{pod}", lives)
            whole = shown(board.answer("job", None))
            for tag, state in known.items():
                answer = board.answer("job", None, tag)
                assert not answer.complete
                found = {**state, **shown(answer)}
                for name in answer.gone:
                    found.pop(name, None)
                assert found == whole
            if rng.random() < 0.5:
                known[board.generation("job", None)] = whole


def test_a_generation_of_long_ago_is_answered_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_CHANGES", 3)
    monkeypatch.setattr(rules, "_STATES", 2)
    board = Board()
    put(board, entry("a-0"))
    first = board.generation("job", None)
    put(board, *(entry(f"b-{number}") for number in range(3)))
    assert board.answer("job", None, first).complete is False
    put(board, entry("b-4"))
    assert board.answer("job", None, first).complete
    tags = []
    for number in range(5, 8):
        put(board, entry(f"b-{number}"))
        tags.append(board.generation("job", None))
    assert [board.answer("job", None, tag).complete for tag in tags] == [True, False, False]


def test_jobs_have_boards_of_their_own(board: Board) -> None:
    put(board, entry("a-0"), entry("x-0", job_uid="other"))
    assert board.take_news() == {"job", "other"}
    assert list(shown(board.answer("job", None))) == ["a-0"]
    assert list(shown(board.answer("other", None))) == ["x-0"]
    assert shown(board.answer("none", None)) == {}


@pytest.mark.proves("rest.md#members")
def test_a_board_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MAX_ENTRIES", 3)
    monkeypatch.setattr(rules, "MAX_ENTRIES_OF_JOB", 2)
    monkeypatch.setattr(rules, "MAX_BYTES_OF_JOB", 1024)
    board = Board()
    put(board, entry("a-0"), entry("a-1"))
    with pytest.raises(OutOfBounds, match="a job may have 2 members"):
        put(board, entry("a-2"))
    with pytest.raises(OutOfBounds, match="the members of a job may say 1 KiB together"):
        put(board, entry("a-1", {"url": "x" * 1000}, version=2))
    # A member may go on, and its entry may grow up to the bound.
    put(board, entry("a-1", {"url": "x" * 900}, version=2))
    put(board, entry("b-0", job_uid="other"))
    with pytest.raises(Busy, match="there are 3 members of all jobs"):
        put(board, entry("c-0", job_uid="third"))
    put(board, entry("b-0", job_uid="other", version=2))
    # Expired entries do not count.
    put(board, entry("a-1", version=3), entry("a-0", version=3), heard=1.0)
    board.sweep(LIFETIME, always)
    assert len(board) == 2
    put(board, entry("c-0", job_uid="third"))


def test_a_peer_gets_changes_but_not_its_own(board: Board) -> None:
    put(board, entry("a-0"), entry("a-1"), heard=1.0)
    put(board, entry("a-2"), heard=2.0, source="peer")
    told, change, more = board.changed_since(0, beside="peer", most_bytes=10_000)
    assert [(each.pod, heard) for each, heard in told] == [("a-0", 1.0), ("a-1", 1.0)]
    assert not more
    assert [e.pod for e, _ in board.changed_since(0, beside="third", most_bytes=9999)[0]] == [
        "a-0",
        "a-1",
        "a-2",
    ]
    assert board.changed_since(change, beside="peer", most_bytes=10_000) == ([], change, False)
    # A heartbeat is sent as well: it keeps the entry from expiring.
    put(board, entry("a-0", version=2), heard=3.0)
    told, _, _ = board.changed_since(change, beside="peer", most_bytes=10_000)
    assert [(each.pod, heard) for each, heard in told] == [("a-0", 3.0)]


def test_changes_for_a_peer_come_in_bounded_parts() -> None:
    board, found, change, more = Board(), [], 0, True
    put(board, *(entry(f"a-{number}") for number in range(10)))
    steps = 0
    while more:
        told, change, more = board.changed_since(change, beside="peer", most_bytes=1500)
        found += [each.pod for each, _ in told]
        steps += 1
    assert (found, steps) == ([f"a-{number}" for number in range(10)], 5)
