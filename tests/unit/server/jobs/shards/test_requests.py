"""Requests for data shards, before an API server of a few dictionaries."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from di_api.status.shards import MAX_SETS
from di_kube.errors import Unavailable
from di_kube.resources import DIJOBS
from di_server.jobs.profilings import merge
from di_server.jobs.shards import writing
from di_server.jobs.shards.asked import take as take_of
from di_server.jobs.shards.stored import read_table, to_status
from tests.schemas import dropped, status_schema
from tests.unit.server.fakes import Harness, make_harness, pod, watch
from tests.unit.server.fakes import job as make_job

Object = dict[str, Any]
PATH = "/v2alpha1/rl.cartpole/shards/prompts"
SET = {"size": 10, "shardSize": 4, "epochs": 2}


def take(harness: Harness, worker: str = "a", **asked: Any) -> tuple[int, Any]:
    return harness.ask(PATH, {**SET, "worker": worker, **asked})


def given(harness: Harness, worker: str = "a", **asked: Any) -> list[int]:
    status, found = take(harness, worker, **asked)
    assert status == 200, found
    return [shard["index"] for shard in found["shards"]]


@pytest.mark.proves("rest.md#operations-on-tasks/post-id-shards-dataset", "rest.md#data-shards")
def test_workers_get_the_next_records_and_report_what_is_done(harness: Harness) -> None:
    status, found = take(harness, number=2)
    assert (status, found) == (
        200,
        {
            "generation": 0,
            "shards": [
                {"index": 0, "epoch": 0, "start": 0, "end": 4},
                {"index": 1, "epoch": 0, "start": 4, "end": 8},
            ],
            "lost": [],
            "done": 0,
            "total": 6,
            "finished": False,
            "retryAfter": 1,
            "ahead": 1.0,
        },
    )
    assert given(harness, "b") == [2]
    assert given(harness, done=[0, 1], number=9) == [3, 4, 5]
    assert take(harness, done=[3, 4, 5], number=9)[1]["finished"] is False
    assert take(harness, "b", done=[2], number=9)[1]["finished"] is True


@pytest.mark.proves("rest.md#operations-on-tasks/get-id-shards-dataset")
def test_the_position_and_the_workers_are_shown(harness: Harness) -> None:
    assert harness.ask(PATH)[0] == 422
    take(harness, number=3)
    take(harness, done=[0], holds=[1, 2], number=0)
    status, found = harness.ask(PATH)
    assert status == 200
    assert {key: found[key] for key in ("after", "undone", "done", "total", "epoch")} == {
        "after": 3,
        "undone": "1-2",
        "done": 1,
        "total": 6,
        "epoch": 0,
    }
    assert found["workers"] == {"a": 2}
    harness.clock.now += 50
    assert harness.ask(PATH)[1]["slowWorkers"] == ["a"]


@pytest.mark.proves("rest.md#operations-on-tasks/put-id-shards-dataset")
def test_a_restored_position_is_where_workers_go_on(harness: Harness) -> None:
    take(harness, number=4)
    body = {**SET, "after": 2, "undone": "0"}
    assert harness.ask(PATH, body, method="PUT") == (200, {"generation": 1})
    status, found = take(harness, generation=0, done=[1, 2], holds=[3], number=2)
    assert (status, found["generation"], found["lost"]) == (200, 1, [3])
    assert [shard["index"] for shard in found["shards"]] == [0, 2]


def test_an_answer_that_was_lost_is_given_again(harness: Harness) -> None:
    assert given(harness, number=2) == [0, 1]
    assert given(harness, number=2) == [0, 1]
    assert given(harness, done=[0], holds=[1]) == [2]


def test_the_status_has_what_was_answered_before_the_answer(harness: Harness) -> None:
    take(harness, number=2)
    stored = harness.job()["status"]["shards"]["prompts"]
    assert stored["leases"]["a"].endswith(" 0-1")
    harness.kube.failures = [Unavailable(kind="DIJob", code=503)]
    assert take(harness, "b")[0] == 503
    assert harness.job()["status"]["shards"]["prompts"] == stored


def test_another_server_goes_on_from_the_status(harness: Harness) -> None:
    take(harness, number=2)
    other = make_harness()
    other.add(copy.deepcopy(harness.job()))
    assert given(other, "b", number=2) == [2, 3]


def test_requests_of_two_servers_never_give_a_shard_twice(harness: Harness) -> None:
    other: list[int] = []

    def between() -> None:
        # Another server was faster: it wrote between this one's read and write.
        harness.kube.before_patch = lambda: None
        second = make_harness()
        second.kube.objects = harness.kube.objects
        second.kube._versions = harness.kube._versions
        other.extend(given(second, "b"))

    harness.kube.before_patch = between
    assert (given(harness), other) == ([1], [0])


def test_a_lease_that_is_over_is_given_to_another(harness: Harness) -> None:
    take(harness, number=2)
    harness.clock.now += 59
    assert given(harness, "b") == [2]
    harness.clock.now += 1
    assert given(harness, "c", number=2) == [0, 1]
    assert take(harness, holds=[0, 1], number=0)[1]["lost"] == [0, 1]


def test_shards_of_a_pod_that_is_gone_are_given_to_another() -> None:
    harness = make_harness(auth="optional")
    harness.add(make_job())
    harness.add_pods(pod("0-x", 0, "10.0.0.1"), pod("1-x", 1, "10.0.0.2"))
    watch(harness)

    def by(ip: str, worker: str) -> list[int]:
        status, found = harness.ask(PATH, {**SET, "worker": worker}, ip=ip)
        assert status == 200, found
        return [shard["index"] for shard in found["shards"]]

    assert (by("10.0.0.1", "a"), by("10.0.0.2", "b")) == ([0], [1])
    harness.caches.pods.on_event("DELETED", pod("0-x", 0, "10.0.0.1"))
    # The watch can be behind a new pod for a moment.
    assert by("10.0.0.2", "c") == [2]
    harness.clock.now += 11
    assert by("10.0.0.2", "d") == [0]


def test_each_pod_has_a_rate_limit_of_its_own() -> None:
    harness = make_harness(auth="optional", rate=0.01, burst=1)
    harness.add(make_job())
    harness.add_pods(pod("0-x", 0, "10.0.0.1"), pod("1-x", 1, "10.0.0.2"))
    watch(harness)
    body = {**SET, "worker": "a"}
    answers = [harness.ask(PATH, body, ip=ip)[0] for ip in ("10.0.0.1", "10.0.0.2", "10.0.0.1")]
    assert answers == [200, 200, 429]


def test_workers_have_to_divide_the_data_set_alike(harness: Harness) -> None:
    take(harness)
    status, message = take(harness, "b", size=12)
    assert status == 409
    assert message.startswith("prompts has size 10 for the workers of this job, not 12")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"size": 0}, "size must be a whole number between 1 and"),
        ({"size": None}, "size must be"),
        ({"shardSize": True}, "shardSize must be"),
        ({"epochs": 2.5}, "epochs must be"),
        ({"shuffle": 1}, "shuffle must be true or false"),
        ({"leaseSeconds": 4}, "leaseSeconds must be"),
        ({"records": 3}, "records must be a text"),
        ({"worker": "a b"}, "worker must be a name"),
        ({"worker": None}, "worker must be a name"),
        ({"number": 257}, "number must be"),
        ({"done": "0-3"}, "done must be a list"),
        ({"holds": [True]}, "holds must have indexes"),
        ({"leaves": "yes"}, "leaves must be true or false"),
    ],
)
def test_a_bad_request_is_refused_with_the_field(
    harness: Harness, body: Object, message: str
) -> None:
    status, found = take(harness, **body)
    assert (status, found.startswith(message)) == (422, True), found
    assert "shards" not in harness.job()["status"]


@pytest.mark.parametrize(
    "body", [{"after": 7}, {"after": 2, "undone": "2"}, {"after": 2, "undone": "x"}, {}]
)
def test_a_bad_position_is_refused(harness: Harness, body: Object) -> None:
    assert harness.ask(PATH, {**SET, **body}, method="PUT")[0] == 422


@pytest.mark.parametrize("name", ["Prompts", "a" * 64, "-a"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_a_bad_name_of_a_data_set_is_refused(harness: Harness, name: str, method: str) -> None:
    path = PATH.replace("prompts", name)
    body = None if method == "GET" else {**SET, "worker": "a", "after": 0}
    assert harness.ask(path, body, method=method)[0] == 422


def test_a_job_has_a_bounded_number_of_data_sets(harness: Harness) -> None:
    for number in range(MAX_SETS):
        path = PATH.replace("prompts", f"s{number}")
        assert harness.ask(path, {**SET, "worker": "a"})[0] == 200
    assert take(harness)[0] == 422
    assert harness.ask(PATH.replace("prompts", "s0"), {**SET, "worker": "a"})[0] == 200


def test_leases_beyond_the_size_of_the_object_wait(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(harness)
    monkeypatch.setattr(writing, "MAX_BYTES", 250)
    assert take(harness, holds=[0], number=0)[0] == 200
    status, message = take(harness, "another-worker")
    assert (status, "take 250 bytes" in message) == (503, True)


def test_many_workers_ask_for_more_at_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "REQUESTS_A_SECOND", 0.5)
    assert [take(harness, worker)[1]["ahead"] for worker in "abc"] == [2.0, 4.0, 6.0]


def test_an_edited_table_is_named_and_repaired_by_a_position(harness: Harness) -> None:
    take(harness)
    for broken in ({"size": "many"}, {**SET, "after": 1, "generation": 0, "leases": {"a": "now"}}):
        harness.job()["status"]["shards"]["prompts"] = broken
        harness.add(harness.job())
        status, message = take(harness)
        assert (status, "status.shards.prompts cannot be read" in message) == (409, True)
        assert harness.ask(PATH, {**SET, "after": 1}, method="PUT")[0] == 200
        assert given(harness, "new") == [1]


def test_the_size_of_a_lease_is_that_in_the_status(harness: Harness) -> None:
    def size() -> int:
        return len(orjson.dumps(harness.job()["status"]["shards"]))

    take(harness, number=0)
    before = size()
    take(harness, "worker", number=0)
    assert size() == before
    take(harness, "worker")
    added = size() - before
    # UIDs of pods have eight characters here; the counts of the table are one digit each.
    assert abs(added + 8 - writing.LEASE_BYTES - len("worker") - len("0")) <= 2


def test_a_finished_job_gives_out_nothing(harness: Harness) -> None:
    harness.job()["status"]["phase"] = "Succeeded"
    assert take(harness)[0] == 409


def test_nothing_is_given_out_that_an_old_crd_drops(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = harness.kube.patch

    def drop(*about: Any, **more: Any) -> Any:
        found = write(*about, **more)
        del found["status"]["shards"]
        return found

    monkeypatch.setattr(harness.kube, "patch", drop)
    status, message = take(harness)
    assert (status, "upgrade the CRDs" in message) == (409, True)


def test_a_write_starts_from_the_state_that_this_server_wrote(harness: Harness) -> None:
    take(harness)
    calls = harness.kube.calls
    before = calls["get", DIJOBS.plural], calls["patch", DIJOBS.plural]
    for number in range(5):
        assert given(harness, f"w{number}") == [number + 1]
    after = calls["get", DIJOBS.plural], calls["patch", DIJOBS.plural]
    assert (after[0] - before[0], after[1] - before[1]) == (0, 5)
    stored = harness.job()["status"]["shards"]["prompts"]
    assert to_status(read_table(stored)) == stored


def test_a_job_that_was_changed_by_others_is_read_before_the_answer(harness: Harness) -> None:
    take(harness)
    harness.job()["status"]["phase"] = "Succeeded"
    harness.add(harness.job())
    assert take(harness)[0] == 409
    harness.job()["status"]["phase"] = "Running"
    harness.add(harness.job())
    assert given(harness, holds=[0]) == [1]


@given_by_hypothesis(
    asked=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 3),
            st.sets(st.integers(0, 12), max_size=3),
            st.booleans(),
            st.integers(0, 40),
        ),
        max_size=30,
    )
)
def test_a_patch_of_the_changed_leases_leads_to_the_whole_state(asked: list[Any]) -> None:
    job = make_job()
    job["metadata"]["resourceVersion"] = "1"
    state, now = writing.State(job=job), datetime(2026, 1, 1, tzinfo=UTC)
    for worker, number, done, leaves, seconds in asked:
        now += timedelta(seconds=seconds)
        body = {**SET, "worker": worker, "number": number, "done": sorted(done), "leaves": leaves}
        request = writing.Request(asked=take_of("prompts", body), pod="", check=lambda _: None)
        written = writing.status_patch(state, [request], now, None)
        again = writing.status_patch(writing.State(job=state.job), [request], now, None)
        assert written.outcomes == again.outcomes
        stored = merge(state.job, written.patch or {})
        assert stored == merge(state.job, again.patch or {})
        state = written.after(stored)
        expected = to_status(state.tables["prompts"])
        assert stored["status"]["shards"]["prompts"] == expected


def test_the_crd_keeps_all_that_is_written(harness: Harness) -> None:
    take(harness, shuffle=True, records="abc")
    assert dropped(status_schema("dijobs-crd.yaml"), harness.job()["status"]) == []


def test_a_user_reads_the_position_with_the_right_to_get() -> None:
    harness = make_harness(auth="required")
    harness.add(make_job())
    for name in ("ada", "eve"):
        harness.kube.users[name] = {"username": name, "uid": name}
    harness.kube.allowed.add(("ada", "get", "rl/cartpole"))
    asked = [harness.ask(PATH, token=name, scheme="https") for name in ("ada", "eve")]
    assert [status for status, _ in asked] == [422, 403], asked
