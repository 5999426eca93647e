"""A coordinator that is refused ends its training, so it is kept waiting while there is hope."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from di_api.kube.errors import Conflict, Throttled, Unavailable
from di_server.deadline import COORDINATED_SECONDS, Deadline
from di_server.services.patience import Patience
from tests.unit.server.fakes import Clock, Object, Stand, coordinated, make_stand, replica, watch

PATH = "/v1alpha1/replicas"
AWAY = Unavailable(kind="DIJob", reason="Timeout")
CHANGES: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "create": ("POST", PATH, {"collectors": {"replicas": 2}}, 4),
    "delete": ("DELETE", PATH, {"collectors": {"replicas": 1}}, 1),
    "replace": ("POST", f"{PATH}/failed", {"collectors": ["c1"], "learners": []}, 2),
}
"""Method, path, body, and how many replicas there are afterwards of two."""


@pytest.fixture(params=[False, True], ids=["from etcd", "from memory"])
def stand(request: pytest.FixtureRequest) -> Stand:
    """An open server and one job with two collectors."""
    stand = make_stand()
    stand.add(coordinated(replica("c1"), replica("c2")))
    if request.param:
        watch(stand)
    return stand


def _change(stand: Stand, kind: str) -> tuple[Any, list[str], int]:
    """What the answer tells, the names of the replicas now, and how many there should be."""
    method, path, body, count = CHANGES[kind]
    whole = {"namespace": "rl", "coordinator": "cartpole-coordinator", **body}
    answer = stand.client.open(path, method=method, data=json.dumps(whole))
    assert answer.status_code == 200, answer.text
    names = [each["name"] for each in stand.job()["spec"]["coordinated"]["replicas"]]
    return json.loads(answer.data)["data"]["collectors"], names, count


def _takes_effect_once(stand: Stand, kind: str) -> None:
    told, names, count = _change(stand, kind)
    assert len(names) == count
    pods = {each.partition(".")[0] for each in told}
    assert pods == ({"c2"} if kind == "delete" else set(names) - {"c1", "c2"})


@pytest.mark.parametrize("kind", CHANGES)
def test_a_write_that_never_arrived_is_sent_again(stand: Stand, kind: str) -> None:
    answers = [AWAY, AWAY]

    def before_patch() -> None:
        if answers:
            raise answers.pop()

    stand.kube.before_patch = before_patch
    _takes_effect_once(stand, kind)
    assert stand.kube.calls["patch", "dijobs"] == 3


@pytest.mark.parametrize("kind", CHANGES)
def test_a_write_whose_answer_was_lost_is_not_made_twice(
    stand: Stand, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = stand.kube.patch

    def lose(*args: Any, **keywords: Any) -> Object:
        patch(*args, **keywords)
        raise AWAY

    monkeypatch.setattr(stand.kube, "patch", lose)
    _takes_effect_once(stand, kind)
    assert stand.kube.calls["patch", "dijobs"] == 1


@pytest.mark.parametrize("kind", CHANGES)
def test_a_write_that_arrives_late_is_not_made_twice(
    stand: Stand, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = stand.kube.patch
    late: list[tuple[Any, Any]] = []

    def delay(*args: Any, **keywords: Any) -> Object:
        if not late:
            late.append((args, keywords))
            raise AWAY
        if len(late) == 1:
            # Overtakes the one that was sent in its place.
            late.append((args, keywords))
            patch(*late[0][0], **late[0][1])
        return patch(*args, **keywords)

    monkeypatch.setattr(stand.kube, "patch", delay)
    _takes_effect_once(stand, kind)
    assert stand.kube.calls["patch", "dijobs"] == 2


def test_a_write_that_met_a_conflict_is_not_taken_for_made(stand: Stand) -> None:
    """Somebody else takes away the very replica, and this request is about one more."""
    answers = [Conflict(kind="DIJob", code=409)]

    def before_patch() -> None:
        if answers:
            error = answers.pop()
            stand.add(coordinated(replica("c1")))
            raise error

    stand.kube.before_patch = before_patch
    told, names, _ = _change(stand, "delete")
    assert (told, names) == (["c1.rl:22270"], [])


@pytest.mark.parametrize("query", [{"coordinator": "cartpole-coordinator"}, {}])
def test_a_list_waits_for_the_api_server(query: dict[str, str]) -> None:
    stand = make_stand()
    stand.add(coordinated(replica("c1")))
    stand.kube.failures = [AWAY] * 5
    began = stand.clock.now
    answer = stand.client.get(PATH, query_string={"namespace": "rl", **query})
    assert answer.status_code == 200
    assert "c1.rl:22270" in answer.text
    assert 1 < stand.clock.now - began < COORDINATED_SECONDS


def test_a_throttled_one_waits_as_told(stand: Stand) -> None:
    stand.kube.failures = [Throttled(kind="DIJob", code=429, retry_after=7)]
    began = stand.clock.now
    _change(stand, "create")
    assert stand.clock.now - began == 7


def test_patience_has_an_end(stand: Stand) -> None:
    stand.kube.failure = AWAY
    began = stand.clock.now
    body = {"namespace": "rl", "coordinator": "cartpole-coordinator", "collectors": {"replicas": 1}}
    answer = stand.client.post(PATH, data=json.dumps(body))
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert COORDINATED_SECONDS - 3 < stand.clock.now - began <= COORDINATED_SECONDS


def test_not_all_threads_wait() -> None:
    """Who asks while another has the only place is told at once; later the place is free."""
    clock = Clock()
    refused: list[bool] = []

    def fail_once() -> Callable[[], str]:
        errors = [AWAY]

        def attempt() -> str:
            if errors:
                raise errors.pop()
            return "there"

        return attempt

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if not refused:
            try:
                refused.append(False)
                ask()
            except Unavailable:
                refused[-1] = True

    patience = Patience(places=1, rng=Random(1), sleep=sleep)

    def ask() -> str:
        return patience.run(fail_once(), Deadline.after(clock))

    assert ask() == "there"
    assert refused == [True]
    assert ask() == "there"
