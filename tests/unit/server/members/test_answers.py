"""The members' board over REST: who may say what, who reads it, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from di_api.names import LABEL_STANDBY, standby_name
from di_server.config import AuthMode
from di_server.members.entry import HEARTBEAT, LIFETIME, MAX_SAYS
from di_server.members.exchange import PATH as EXCHANGE
from di_server.members.exchange import News
from di_server.storage.transforms import transform_pod
from di_service.serving.later import LATER, Later
from tests.unit.server.fakes import (
    Harness,
    Object,
    coordinated,
    job,
    make_harness,
    pod,
    pod_user,
    watch,
)
from tests.unit.server.members.test_board import entry

PATH = "/v2alpha1/rl.cartpole/members"
CALLER: dict[str, Any] = {"ip": "10.0.0.1", "scheme": "https"}
SAYS = {"url": "http://10.0.0.1:8000", "worldSize": 2}


def world(auth: AuthMode = AuthMode.OFF, **options: Any) -> Harness:
    """A job of three pods, and another one, in sight."""
    harness = make_harness(auth=auth, **options)
    other = job("other", uid="uid-2")
    harness.add(job(), other, coordinated(name="led", uid="uid-3"))
    harness.add_pods(
        pod("learner", 0, "10.0.0.1", task="learner"),
        pod("one", 1, "10.0.0.2"),
        pod("two", 2, "10.0.0.3"),
        pod("theirs", 0, "10.0.0.9", owner=other),
    )
    watch(harness)
    return harness


def put(
    harness: Harness, name: str, body: object = SAYS, *, path: str = PATH, **caller: Any
) -> tuple[int, Any]:
    return harness.ask(f"{path}/{name}", body, method="PUT", **CALLER | caller)


def get(harness: Harness, query: str = "", *, path: str = PATH, **caller: Any) -> tuple[int, Any]:
    return harness.ask(f"{path}?{query}", **CALLER | caller)


def says(data: Any) -> dict[str, Any]:
    return {member["pod"]: member["says"] for member in data["members"]}


@pytest.fixture
def harness() -> Harness:
    return world()


@pytest.mark.proves("rest.md#operations-on-tasks/put-id-members-pod")
def test_all_pods_read_what_a_pod_has_published(harness: Harness) -> None:
    assert put(harness, "learner") == (
        200,
        {"heartbeatSeconds": HEARTBEAT, "lifetimeSeconds": LIFETIME},
    )
    put(harness, "one", {"url": "grpc://one", "load": 0.5})
    status, data = get(harness)
    assert (status, data["complete"], data["gone"]) == (200, True, [])
    assert says(data) == {"learner": SAYS, "one": {"url": "grpc://one", "load": 0.5}}
    assert [(m["task"], m["uid"]) for m in data["members"]] == [
        ("learner", "uid-of-learner"),
        ("collector", "uid-of-one"),
    ]
    assert says(get(harness, "task=collector")[1]) == {"one": {"url": "grpc://one", "load": 0.5}}
    # From memory, and nothing was written.
    assert not harness.kube.calls


@pytest.mark.proves("rest.md#operations-on-tasks/get-id-members-task-generation-wait-changes")
def test_changes_since_a_generation_are_answered_on_request(harness: Harness) -> None:
    put(harness, "learner")
    put(harness, "one")
    before = get(harness)[1]["generation"]
    put(harness, "two")
    harness.caches.pods.on_event("DELETED", _version(harness, "one"))
    harness.members.on_pod("DELETED", _version(harness, "one"))
    data = get(harness, f"generation={before}&changes=true")[1]
    assert (data["complete"], list(says(data)), data["gone"]) == (False, ["two"], ["one"])
    whole = get(harness, f"generation={before}")[1]
    assert (whole["complete"], list(says(whole))) == (True, ["learner", "two"])
    assert whole["generation"] == data["generation"] != before


@pytest.mark.proves("roles.md#warm-stand-by/a-trainer-that-reads-the-members-board")
def test_a_standby_pod_is_on_the_board_once_it_puts_its_entry(harness: Harness) -> None:
    name = standby_name("cartpole", "collector", 0)
    standby = pod(name, 0, "10.0.0.4")
    standby["metadata"]["labels"][LABEL_STANDBY] = "true"
    del standby["metadata"]["annotations"]
    harness.add_pods(standby)
    watch(harness)
    put(harness, "one")
    assert list(says(get(harness, "task=collector")[1])) == ["one"]
    assert put(harness, name)[0] == 200
    assert set(says(get(harness, "task=collector")[1])) == {"one", name}


def _version(harness: Harness, name: str) -> Object:
    return transform_pod(harness.kube.objects["pods", "rl", name])


@pytest.mark.parametrize("change", [{"phase": "Succeeded"}, {"deletionTimestamp": "now"}])
def test_a_pod_that_ends_is_no_member(harness: Harness, change: Object) -> None:
    put(harness, "one")
    body = harness.kube.objects["pods", "rl", "one"]
    body["status"] |= {key: value for key, value in change.items() if key == "phase"}
    body["metadata"] |= {key: value for key, value in change.items() if key != "phase"}
    harness.add_pods(body)
    harness.caches.pods.on_event("MODIFIED", transform_pod(body))
    harness.members.on_pod("MODIFIED", transform_pod(body))
    assert says(get(harness)[1]) == {}
    assert put(harness, "one") == (409, "one is ending")


def test_a_request_waits_for_another_generation_without_a_thread(harness: Harness) -> None:
    put(harness, "learner")
    known = get(harness)[1]["generation"]
    environ: Object = {"REMOTE_ADDR": "10.0.0.1"}
    kept: list[Any] = []

    def ask(query: str) -> Later | None:
        kept.clear()
        with harness.client.application.test_request_context(
            f"{PATH}?{query}", environ_overrides=environ
        ) as context:
            kept.append(harness.client.application.full_dispatch_request())
            later: Later | None = context.request.environ.get(LATER)
            return later

    assert ask(f"generation={known}") is None
    assert ask("wait=20") is None
    assert ask("generation=another&wait=20") is None
    later = ask(f"generation={known}&wait=20")
    assert later is not None
    assert later.seconds == 20
    told: list[bytes] = []
    leave = later.subscribe(told.append)
    assert harness.members.waiting == 1
    put(harness, "one")
    harness.members.step()
    (body,) = told
    found = json.loads(body)
    assert (found["success"], list(says(found["data"]))) == (True, ["learner", "one"])
    # Else what it was told first is sent: nothing has changed.
    assert kept[0].get_json()["data"]["generation"] == known
    leave()


NO_URL = "url: must be the URL"
NO_NAME = "the name of a pod is 1 to 63 of a-z, 0-9 and -"
NUMBERS = b'{"url": "http://x", "more": [%s]}' % b",".join([b"1e15"] * 190)
NOT_ANSWERED = "generation: must be one that was answered"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, NO_URL),
        *(
            ({"url": url}, 400, NO_URL)
            for url in (
                *(7, "", "10.0.0.1:8000", "http://", "http://x:port", "http://[x", "http://x y"),
                "http://" + "x" * 512,
            )
        ),
        (b"[]", 400, "the body must be a JSON object"),
        *((body, 400, "the body must be JSON") for body in (b"{", b"")),
        ({"url": "http://x", "more": "x" * MAX_SAYS}, 413, "the body must not be longer than 1024"),
        (NUMBERS, 413, "the body must not be longer than 1024 bytes, written without spaces"),
    ],
)
def test_a_bad_entry_is_refused(harness: Harness, body: object, status: int, words: str) -> None:
    found, message = put(harness, "one", body)
    assert (found, message[: len(words)]) == (status, words)
    assert says(get(harness)[1]) == {}


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("task=actor", 422, "no such task; the tasks of this job are learner, collector"),
        ("wait=21", 422, "wait must be between 0 and 20 seconds"),
        ("wait=-1", 400, "wait: must be a whole number, 0 or more"),
        ("wait=1&wait=2", 400, "wait: is there twice"),
        ("changes=1", 400, "changes: must be true or false"),
        *((f"generation={tag}", 400, NOT_ANSWERED) for tag in ("", "x" * 65)),
    ],
)
def test_a_bad_query_is_refused(query: str, status: int, words: str) -> None:
    assert get(world(), query) == (status, words)


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        *((name, 422, f"{name} is no pod of job rl/cartpole") for name in ("none", "theirs")),
        *((name, 400, NO_NAME) for name in ("A", "a" * 64, "..")),
    ],
)
def test_another_name_is_no_member(name: str, status: int, words: str) -> None:
    found, message = put(world(), name)
    assert (found, message[: len(words)]) == (status, words)


def test_another_job_has_no_members() -> None:
    for job_, answer in (
        ("led", (422, "this job has a coordinator")),
        ("none", (404, "no such j")),
    ):
        status, message = put(world(), "one", path=f"/v2alpha1/rl.{job_}/members")
        assert (status, message[: len(answer[1])]) == answer


def test_a_job_or_a_pod_may_have_any_name() -> None:
    harness = make_harness()
    named = job("members")
    harness.add(named, job("group", uid="uid-2"))
    for number, name in enumerate(("replicas", "members", "group")):
        harness.add_pods(pod(name, number, f"10.0.0.{number + 1}", owner=named))
    watch(harness)
    for path in ("rl/members", "rl.members", "rl.members.7", "job/rl/members", "job/rl.members"):
        for name in ("replicas", "members", "group"):
            assert put(harness, name, path=f"/v2alpha1/{path}/members")[0] == 200
        found = get(harness, path=f"/v2alpha1/{path}/members")[1]
        assert list(says(found)) == ["group", "members", "replicas"]
    assert get(harness, path="/v2alpha1/rl/group/members")[0] == 200
    assert len(get(harness, path="/v2alpha1/rl/members/replicas")[1]) == 3


class TestWhoMay:
    def test_a_pod_publishes_for_itself_alone(self) -> None:
        harness = world(AuthMode.OPTIONAL)
        assert put(harness, "one", ip="10.0.0.2")[0] == 200
        assert put(harness, "two", ip="10.0.0.2") == (
            403,
            "only two itself may say where it serves",
        )
        assert put(harness, "one", ip="10.0.0.9")[0] == 401
        assert put(harness, "one", ip="10.9.9.9")[0] == 401
        # Others of the job read it, and those of another job do not.
        assert list(says(get(harness, ip="10.0.0.1")[1])) == ["one"]
        assert get(harness, ip="10.0.0.9")[0] == 401

    def test_a_token_names_the_pod_and_the_watch_shows_it(self) -> None:
        harness = world(AuthMode.REQUIRED)
        harness.kube.users["t"] = pod_user("one")
        for _ in range(3):
            assert put(harness, "one", token="t", ip="10.8.8.8")[0] == 200
        assert put(harness, "two", token="t", ip="10.8.8.8")[0] == 403
        assert harness.kube.calls == {("create", "tokenreviews"): 1}
        # Of a pod that the watch does not show the API server knows more.
        harness.kube.users["t"] = pod_user("one", uid="uid-of-another")
        harness.clock.sleep(61)
        assert put(harness, "one", token="t")[0] == 403
        assert harness.kube.calls["get", "pods"] == 1

    def test_a_person_reads_members_and_publishes_none(self) -> None:
        harness = world(AuthMode.REQUIRED)
        harness.kube.users["t"] = {"username": "ann"}
        for verb in ("get", "update"):
            harness.kube.allowed.add(("ann", verb, "rl/cartpole"))
        assert get(harness, token="t", ip="10.8.8.8")[0] == 200
        status, said = put(harness, "one", token="t")
        assert (status, said) == (403, "only one itself may say where it serves")

    def test_requests_count_by_pod(self) -> None:
        harness = world(AuthMode.OPTIONAL, rate=1.0, burst=2)
        for ip in ("10.0.0.1", "10.0.0.2"):
            assert [get(harness, ip=ip)[0] for _ in range(3)] == [200, 200, 429]


class TestPeers:
    NEWS = News(server="peer", entries=[(entry("one", pod_uid="uid-of-one", job_uid="uid-1"), 1.0)])

    def _harness(self, folder: Path) -> Harness:
        file = folder / "token"
        file.write_text("mine\n")
        harness = world(AuthMode.OPTIONAL, peer_token_file=file, tls_port=8443)
        for token, name in (("mine", "di"), ("peer", "di"), ("other", "di-server-2")):
            harness.kube.users[token] = {"username": f"system:serviceaccount:di-system:{name}"}
        return harness

    def _tell(self, harness: Harness, token: str | None, ip: str = "10.7.7.7") -> tuple[int, Any]:
        return harness.ask(EXCHANGE, self.NEWS.dump(), **CALLER | {"token": token, "ip": ip})

    def test_a_server_of_the_same_account_exchanges_members(self, tmp_path: Path) -> None:
        harness = self._harness(tmp_path)
        put(harness, "learner")
        status, data = self._tell(harness, "peer")
        assert (status, [each["pod"] for each in data["entries"]]) == (200, ["learner"])
        assert data["server"] == "this"
        assert list(says(get(harness)[1])) == ["learner", "one"]

    @pytest.mark.parametrize(("token", "status"), [("other", 403), ("forged", 401), (None, 401)])
    def test_other_callers_exchange_no_members(
        self, tmp_path: Path, token: str | None, status: int
    ) -> None:
        harness = self._harness(tmp_path)
        # Not a pod of a job either.
        assert self._tell(harness, token, "10.0.0.1")[0] == status
        assert says(get(harness)[1]) == {}

    def test_a_server_without_peers_exchanges_no_members(self) -> None:
        harness = world(AuthMode.OPTIONAL)
        harness.kube.users["peer"] = {"username": "system:serviceaccount:di-system:di"}
        assert self._tell(harness, "peer")[0] == 403

    def test_a_broken_exchange_is_refused(self, harness: Harness) -> None:
        found, said = harness.ask(EXCHANGE, {})
        assert (found, said) == (400, "this is no exchange of members: KeyError")

    def test_the_exchange_is_not_in_the_openapi_document(self) -> None:
        assert EXCHANGE not in world().client.get("/openapi.json").get_json()["paths"]


def test_a_server_is_ready_once_it_has_asked_the_others(harness: Harness) -> None:
    harness.asked.clear()
    answer = harness.client.get("/readyz")
    assert (answer.status_code, answer.get_json()["message"]) == (
        503,
        "the other replicas have not been asked yet",
    )
    harness.asked.set()
    assert harness.client.get("/readyz").status_code == 200
